package attacks

import (
	"fmt"
	"slices"
)

// A Case is one question of a teardown: a small, named part of the catalogue that
// anybody who relies on an approval system would ask first.
type Case struct {
	Number int
	Name   string
	Title  string
	// Attacks must be blocked and Twins must complete; both are named as "AB1/name".
	Attacks, Twins []string
}

// Teardown returns the nine cases, in order.
func Teardown() []Case { return slices.Clone(teardown) }

var teardown = []Case{
	{
		Number: 1, Name: "argument_changed", Title: "each material argument is changed, one at a time, after the approval",
		Attacks: []string{
			"AB1/quantity_raised_in_the_queue", "AB1/unit_changed_in_the_queue", "AB1/destination_changed_in_the_queue",
			"AB1/reference_pointed_at_another_record_in_the_queue", "AB1/text_changed_in_the_queue", "AB1/field_added_in_the_queue",
			"AB1/field_dropped_so_that_the_default_applies", "AB5/approval_for_staging_presented_in_production",
		},
		Twins: []string{"AB1/same_arguments_in_another_order_and_with_white_space"},
	},
	{
		Number: 2, Name: "reference_changed", Title: "an alias or a list means something else than at review",
		Attacks: []string{
			"AB3/referenced_record_changed_after_approval", "AB3/referenced_record_changed_on_the_way_to_the_provider",
			"AB3/referenced_record_changed_between_request_and_decision", "AB3/handle_repointed_before_the_request",
		},
		Twins: []string{"AB3/reference_unchanged_and_time_passed"},
	},
	{
		Number: 3, Name: "view_misleads", Title: "a long or confusable value in the view",
		Attacks: []string{
			"AB2/payload_behind_the_truncation", "AB2/confusable_letter_in_the_destination", "AB2/whole_script_homoglyph_of_a_domain",
			"AB2/bidi_override_shows_the_wanted_value", "AB2/zero_width_character_in_the_destination", "AB2/element_changed_in_the_unseen_tail_of_a_list",
		},
		Twins: []string{"AB2/long_legitimate_text_is_shown_and_approved", "AB2/names_in_latin_and_in_other_scripts"},
	},
	{
		Number: 4, Name: "presented_at_once", Title: "one permit is presented by several workers and to several instances at once",
		Attacks: []string{"AB4/presented_by_eight_workers_at_once", "AB4/presented_to_two_instances_over_one_store", "AB4/presented_again_after_a_restart"},
		Twins:   []string{"AB4/five_identical_calls_each_with_its_own_approval"},
	},
	{
		Number: 5, Name: "sibling_service", Title: "a permit is presented to a sibling service that shares the signing key",
		Attacks: []string{"AB5/presented_at_a_sibling_service_with_the_same_key", "AB5/presented_at_a_sibling_service_with_the_audience_claim_edited"},
		Twins:   []string{"AB5/presented_at_its_own_service_beside_a_sibling_call"},
	},
	{
		Number: 6, Name: "authority_ended", Title: "the agent is disabled, or the policy changes, while the call waits",
		Attacks: []string{"AB6/agent_disabled_while_the_call_waits", "AB6/policy_changed_while_the_call_waits"},
		Twins:   []string{"AB6/another_agent_disabled_while_the_call_waits", "AB6/dispatched_just_before_the_end"},
	},
	{
		Number: 7, Name: "store_unavailable", Title: "the store of consumptions does not answer",
		Attacks: []string{"AB12/approval_store_down_at_dispatch", "AB12/approval_store_lost_between_check_and_consume", "AB12/consumption_written_and_answered_with_an_error"},
		Twins:   []string{"AB12/dispatched_after_the_outage"},
	},
	{
		Number: 8, Name: "answer_lost", Title: "the response is dropped after the effect was made",
		Attacks: []string{"AB7/answer_lost_and_sent_again_below_the_gate", "AB7/gates_answer_lost_and_dispatched_again_with_a_fresh_request_id", "AB7/crash_after_the_send_and_dispatched_again"},
	},
	{
		Number: 9, Name: "honest_calls_pass", Title: "a legitimate retry with the same key, and a legitimate second call with an approval of its own",
		Twins: []string{"AB7/sent_again_after_a_refused_connection", "AB7/sent_again_after_a_lost_request", "AB4/second_call_with_an_approval_of_its_own"},
	},
}

// Select returns the families with those of their variants and twins alone that
// some of the cases name. A name that the catalogue has not is an error.
func Select(cases []Case, all []Family) ([]Family, error) {
	wanted := map[string]bool{}
	for _, c := range cases {
		for _, name := range slices.Concat(c.Attacks, c.Twins) {
			wanted[name] = true
		}
	}
	var out []Family
	for _, f := range all {
		pick := func(vs []Variant) []Variant {
			return slices.DeleteFunc(slices.Clone(vs), func(v Variant) bool {
				name := f.ID + "/" + v.Name
				is := wanted[name]
				delete(wanted, name)
				return !is
			})
		}
		f.Variants, f.Twins = pick(f.Variants), pick(f.Twins)
		if len(f.Variants)+len(f.Twins) > 0 {
			out = append(out, f)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("selecting cases: the catalogue has no %s", name)
	}
	return out, nil
}
