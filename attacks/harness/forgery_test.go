package harness_test

import (
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
)

// TestForgedAssertionsAreRefusedForWhatIsWrong runs the WebAuthn negatives of AB8,
// each valid but for one thing, against M9 without duties, which would refuse every
// one of them because an agent posts it. What is left to refuse is the assertion,
// and it is refused for that one thing.
func TestForgedAssertionsAreRefusedForWhatIsWrong(t *testing.T) {
	want := map[string]string{
		"assertion_challenge_is_another_one":                        "challenge",
		"assertion_origin_has_another_scheme":                       "origin",
		"assertion_origin_has_another_port":                         "origin",
		"assertion_origin_is_a_subdomain":                           "origin",
		"assertion_origin_ends_in_a_dot":                            "origin",
		"assertion_origin_has_a_user_part":                          "origin",
		"assertion_origin_has_the_host_as_its_user_part":            "origin",
		"assertion_origin_is_in_capitals":                           "origin",
		"assertion_relying_party_is_another_one":                    "rp_id",
		"assertion_user_was_not_present":                            "up",
		"assertion_user_was_not_verified":                           "uv",
		"assertion_ceremony_was_a_registration":                     "type",
		"assertion_page_was_framed_by_another_origin":               "cross_origin",
		"assertion_page_names_a_top_origin":                         "cross_origin",
		"assertion_user_handle_is_another_persons":                  "credential",
		"assertion_backed_up_without_being_eligible":                "backup",
		"assertion_authenticator_data_too_long":                     "malformed",
		"assertion_credential_was_never_registered":                 "credential",
		"assertion_signed_with_another_key":                         "signature",
		"assertion_authenticator_data_altered_after_signing":        "signature",
		"assertion_counter_went_backwards":                          "counter",
		"assertion_counter_fell_to_zero":                            "counter",
		"assertion_was_given_for_another_call":                      "challenge",
		"assertion_for_another_call_beside_the_challenge_asked_for": "challenge",
	}
	var families []attacks.Family
	named := 0
	for _, f := range attacks.All() {
		if f.ID != "AB8" {
			continue
		}
		f.Twins = nil
		f.Variants = slices.DeleteFunc(slices.Clone(f.Variants), func(v attacks.Variant) bool { return !strings.HasPrefix(v.Name, "assertion_") })
		for _, v := range f.Variants {
			if want[v.Name] == "" {
				t.Errorf("%s: what is wrong with it is not stated", v.Name)
			}
			named++
		}
		families = append(families, f)
	}
	if named != len(want) {
		t.Errorf("AB8 has %d forged assertions, and %d are expected", named, len(want))
	}
	rs, _ := run(t, plan(t, []harness.Target{target(mode(t, "M9").Without(api.BindDuties))}, families, scenario(t, "payments")))
	for _, r := range rs {
		if code, forged := want[r.Variant]; forged && !slices.Equal(r.RefusedCodes, []string{"attest/" + code}) {
			t.Errorf("want it refused by attest/%s: %s", code, describe(r))
		}
	}
}
