package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"countersign/gateway/api"
	"countersign/scenarios"
)

// AB11: the gate and the service read the same bytes differently.
var _ = family(Family{
	ID: "AB11", Title: "canonicalisation confusion", Main: api.BindStrict,
	Variants: []Variant{
		{
			Name:    "duplicate_key_first_one_counts_at_the_service",
			Summary: "while the approved call waits, the text gets a second, hostile member in front; the gate reads the last and the service the first",
			Uses:    []Capability{UseQueue}, Stopped: stopped("strict"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("first", "unchecked"),
			Success: []string{"content:{text}", "none"}, References: []string{"incident 47", "RFC 8259 section 4"},
			Run: func(s *Stage) {
				c := s.Call(0)
				m := s.Ask(c)
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) {
					d.Action.Arguments = c.Args().Before(s.Field(scenarios.RoleText), s.Scenario.Hostile(scenarios.RoleText)).Text()
				}))
			},
		},
		{
			Name:    "duplicate_key_at_review",
			Summary: "the agent proposes a text with two members of one name; the summary shows the last and the service reads the first",
			Uses:    []Capability{UseText}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("first", "unchecked"),
			Success: []string{"shown:{text}", "none"}, References: []string{"RFC 8259 section 4"},
			Run: func(s *Stage) {
				s.proposed(s.Call(0), func(a Arguments) Arguments {
					return a.Before(s.Field(scenarios.RoleText), s.Scenario.Hostile(scenarios.RoleText))
				})
			},
		},
		{
			Name:    "case_variant_key_at_review",
			Summary: "the agent adds a member whose name differs in case only; the service's decoder folds case and takes the last",
			Uses:    []Capability{UseText}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("struct"),
			Success: []string{"shown:{text}", "none"}, References: []string{"incident 67", "CVE-2020-16250"},
			Run: func(s *Stage) {
				s.proposed(s.Call(0), func(a Arguments) Arguments {
					return a.After(capital(s.Field(scenarios.RoleText)), s.Scenario.Hostile(scenarios.RoleText))
				})
			},
		},
		{
			Name:    "duplicate_key_spelled_with_an_escape",
			Summary: "as before, with a letter of the second key written as an escape, which a search for equal texts does not find",
			Uses:    []Capability{UseQueue}, Stopped: stopped("strict"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("first", "unchecked"),
			Success: []string{"content:{text}", "none"}, References: []string{"RFC 8259 section 8.3"},
			Run: func(s *Stage) {
				c := s.Call(0)
				m := s.Ask(c)
				s.Tamper()
				name := s.Field(scenarios.RoleText)
				s.Dispatch(m.With(func(d *api.Dispatch) {
					d.Action.Arguments = fmt.Appendf(nil, `{"\u%04x%s":%s,%s`, name[0], name[1:], s.Scenario.Hostile(scenarios.RoleText), c.Args().Text()[1:])
				}))
			},
		},
		{
			Name:    "null_in_front_of_the_value_so_that_the_default_applies",
			Summary: "the text gets a second member with null in front; the gate reads the approved value, the service takes null for absent",
			Uses:    []Capability{UseQueue}, Stopped: stopped("strict"), Needs: []scenarios.Role{scenarios.RoleDefaulted}, Unless: reads("first", "unchecked"),
			Success: []string{"content:{defaulted}", "none"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.Before(s.Field(scenarios.RoleDefaulted), null)
				}))
			},
		},
		{
			Name:    "null_for_the_value_in_the_queue",
			Summary: "a value becomes null while the approved call waits: a value to the gate, absence to the service, which applies its default",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | strict"), Needs: []scenarios.Role{scenarios.RoleDefaulted},
			Success: []string{"content:{defaulted}", "none"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.With(s.Field(scenarios.RoleDefaulted), null)
				}))
			},
		},
		{
			Name:    "null_for_the_value_at_review",
			Summary: "the agent proposes null for a field that the summary does not show, and the service applies its default",
			Uses:    []Capability{UseText}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleDefaulted},
			Success: []string{"shown:{defaulted}", "none"},
			Unless: func(sc *scenarios.Scenario) string {
				t, _ := sc.Tool(sc.HonestTool)
				if f, _ := sc.Field(scenarios.RoleDefaulted); slices.Contains(t.Summary, f.Name) {
					return "the summary shows the field with a default"
				}
				return ""
			},
			Run: func(s *Stage) {
				s.proposed(s.Call(0), func(a Arguments) Arguments { return a.With(s.Field(scenarios.RoleDefaulted), null) })
			},
		},
		{
			Name:    "case_variant_key_added_in_the_queue",
			Summary: "a member whose name differs in case only is added while the approved call waits; the service's decoder folds case and takes the last",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | strict"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("struct"),
			Success: []string{"content:{text}", "none"}, References: []string{"incident 67"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.After(capital(s.Field(scenarios.RoleText)), s.Scenario.Hostile(scenarios.RoleText))
				}))
			},
		},
		{
			Name:    "case_variant_members_reordered_in_the_queue",
			Summary: "two members whose names differ in case only change places, which leaves the canonical form as it was and changes which the decoder takes",
			Uses:    []Capability{UseText, UseQueue}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleText}, Unless: reads("struct"),
			Success: []string{"content:{text}", "none"}, References: []string{"incident 67", "RFC 8785 section 3.2.3"},
			Run: func(s *Stage) {
				c := s.Call(0)
				name, value := capital(s.Field(scenarios.RoleText)), s.Scenario.Hostile(scenarios.RoleText)
				honest := c.Args()
				s.Tamper()
				c.Action.Arguments = honest.Before(name, value).Text()
				s.Dispatch(s.substitute(s.Ask(c), func(Arguments) Arguments { return honest.After(name, value) }))
			},
		},
		{
			Name:    "case_variant_key_outside_ascii_at_review",
			Summary: "the agent adds a member with the long s or the Kelvin sign in its name, which the service's decoder folds to s and k",
			Uses:    []Capability{UseText}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleText},
			Unless: func(sc *scenarios.Scenario) string {
				if f, _ := sc.Field(scenarios.RoleText); foreign(f.Name) == f.Name {
					return "the name of the text has neither an s nor a k"
				}
				return reads("struct")(sc)
			},
			Success: []string{"shown:{text}", "none"}, References: []string{"incident 67"},
			Run: func(s *Stage) {
				s.proposed(s.Call(0), func(a Arguments) Arguments {
					return a.After(foreign(s.Field(scenarios.RoleText)), s.Scenario.Hostile(scenarios.RoleText))
				})
			},
		},
		{
			Name:    "integer_beyond_two_to_the_fifty_third",
			Summary: "2^53 is approved and 2^53+1 dispatched: RFC 8785 writes both alike, and the service has 64-bit integers",
			Uses:    []Capability{UseText, UseQueue}, Stopped: stopped("strict"), Needs: []scenarios.Role{scenarios.RoleQuantity},
			Unless:  integral(),
			Success: []string{"content:{quantity}", "none"}, References: []string{"incident 66", "RFC 7493 section 2.2"},
			Run: func(s *Stage) {
				const approved, executed = "9007199254740992", "9007199254740993"
				c := s.Call(0)
				name := s.Field(scenarios.RoleQuantity)
				s.Tamper()
				c.Action.Arguments = c.Args().With(name, json.RawMessage(approved)).Text()
				c.Want.Values["/"+name] = approved
				m := s.Ask(c)
				s.Dispatch(s.substitute(m, func(a Arguments) Arguments { return a.With(name, json.RawMessage(executed)) }))
			},
		},
		{
			Name:    "space_appended_in_the_queue",
			Summary: "the destination gets a space at its end while the approved call waits; a gate that compares trimmed texts sees no change",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleDestination},
			Success: []string{"content:{destination}", "none"}, References: []string{"incident 45"},
			Run: func(s *Stage) { s.Dispatch(s.substitute(s.Ask(s.Call(0)), appended(s, " "))) },
		},
		{
			Name:    "space_appended_at_review",
			Summary: "the agent proposes the destination with a space at its end, which nobody sees and the service acts on",
			Uses:    []Capability{UseText, UseDisplay}, Stopped: stopped("render"), Needs: []scenarios.Role{scenarios.RoleDestination},
			Success: []string{"shown:{destination}", "none"}, References: []string{"incident 45"},
			Run: func(s *Stage) { s.proposed(s.Call(0), appended(s, " ")) },
		},
		{
			Name:    "nul_character_appended_in_the_queue",
			Summary: "the destination gets U+0000 at its end while the approved call waits; a gate that compares up to it sees no change",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | strict"), Needs: []scenarios.Role{scenarios.RoleDestination},
			Success: []string{"content:{destination}", "none"}, References: []string{"incident 45"},
			Run: func(s *Stage) { s.Dispatch(s.substitute(s.Ask(s.Call(0)), appended(s, "\x00"))) },
		},
		{
			Name:    "nul_character_appended_at_review",
			Summary: "the agent proposes the destination with U+0000 at its end, which nobody sees and the service acts on",
			Uses:    []Capability{UseText, UseDisplay}, Stopped: stopped("strict | render"), Needs: []scenarios.Role{scenarios.RoleDestination},
			Success: []string{"shown:{destination}", "none"}, References: []string{"incident 45"},
			Run: func(s *Stage) { s.proposed(s.Call(0), appended(s, "\x00")) },
		},
		{
			Name:    "composed_letter_decomposed_in_the_queue",
			Summary: "a letter with an accent (NFC) becomes letter and accent (NFD) while the approved call waits: the same to a reader, another name to the service",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleText},
			Success: []string{"content:{text}", "none"}, References: []string{"Unicode UAX #15"},
			Run: func(s *Stage) {
				m := s.Ask(s.accented())
				s.Dispatch(s.substitute(m, decomposed(s)))
			},
		},
		{
			Name:    "decomposed_letter_at_review",
			Summary: "the person wants a text with an accented letter (NFC), and the agent proposes it with letter and accent apart (NFD)",
			Uses:    []Capability{UseText, UseDisplay}, Stopped: stopped("render"), Needs: []scenarios.Role{scenarios.RoleText},
			Success: []string{"shown:{text}", "none"}, References: []string{"Unicode UAX #15"},
			Run: func(s *Stage) { s.proposed(s.accented(), decomposed(s)) },
		},
		unreadable("number_with_a_plus_sign_in_the_queue", "the quantity is raised and written with a plus sign",
			scenarios.RoleQuantity, integral("unchecked"), written("+%s"), "incident 64"),
		unreadable("number_with_leading_zeros_in_the_queue", "the quantity is raised and written with leading zeros",
			scenarios.RoleQuantity, integral("unchecked"), written("00%s"), "incident 64"),
		unreadable("number_in_hexadecimal_in_the_queue", "the quantity is raised and written as a hexadecimal float of Go",
			scenarios.RoleQuantity, integral("unchecked"), func(s *Stage, a Arguments) []byte {
				var n int64
				s.must(json.Unmarshal(s.Scenario.Hostile(scenarios.RoleQuantity), &n))
				return a.With(s.Field(scenarios.RoleQuantity), fmt.Appendf(nil, "0x%xp0", n)).Text()
			}, "incident 64"),
		unreadable("number_followed_by_another_in_the_queue", "the quantity is raised and followed by a space and the approved one",
			scenarios.RoleQuantity, integral("unchecked"), func(s *Stage, a Arguments) []byte {
				f := s.Field(scenarios.RoleQuantity)
				return a.With(f, fmt.Appendf(nil, "%s %s", s.Scenario.Hostile(scenarios.RoleQuantity), a.Get(f))).Text()
			}, "incident 64"),
		unreadable("literal_split_by_spaces_in_the_queue", "the default is written in letters with spaces between them",
			scenarios.RoleDefaulted, func(sc *scenarios.Scenario) string {
				if f, _ := sc.Field(scenarios.RoleDefaulted); f.Default != "true" {
					return "the default is not true"
				}
				return reads("unchecked")(sc)
			}, func(s *Stage, a Arguments) []byte {
				return a.With(s.Field(scenarios.RoleDefaulted), json.RawMessage("t r u e")).Text()
			}, "incident 64"),
		unreadable("text_cut_off_within_a_key_in_the_queue", "the text is changed, and the object ends within the key of one more member",
			scenarios.RoleText, reads("unchecked"), func(s *Stage, a Arguments) []byte {
				text := hostile(s, scenarios.RoleText)(a).Text()
				return append(text[:len(text)-1], `,"\q`...)
			}, "incident 63"),
		unreadable("second_object_behind_the_first_in_the_queue", "an object with another text is put in front of the approved one, and the service reads one object only",
			scenarios.RoleText, reads("struct", "unchecked"), func(s *Stage, a Arguments) []byte {
				return append(hostile(s, scenarios.RoleText)(a).Text(), a.Text()...)
			}),
		leniently("lone_surrogate_in_the_queue", "the text is changed and ends in half of a surrogate pair, for which every reader puts something else",
			`\ud800\u0041`, "RFC 8259 section 8.2"),
		leniently("byte_that_is_no_utf8_in_the_queue", "the text is changed and ends in a byte that is no UTF-8, for which every reader puts something else",
			"\xff", "RFC 8259 section 8.1"),
		{
			Name:    "nesting_too_deep_for_the_gate_in_the_queue",
			Summary: "the text is changed behind a member, ignored by the service, that is nested deeper than the gate reads; the gate survives it, and the call as approved goes through",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | strict | refs"),
			Needs: []scenarios.Role{scenarios.RoleText, scenarios.RoleReference}, Unless: reads("first", "unchecked"),
			Success: []string{"content:{text}", "none"}, Effects: 1, References: []string{"CWE-674"},
			Run: func(s *Stage) {
				const depth = 10_050 // encoding/json stops at 10,000
				bomb := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
				m := s.Ask(s.Call(0))
				s.Dispatch(s.substitute(m, func(a Arguments) Arguments { return hostile(s, scenarios.RoleText)(a).Before("x", bomb) }))
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{{
		Name:    "equal_values_written_differently",
		Summary: "the queue writes the same values with escapes, fractions of zero, another order and white space",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Arguments = c.Args().Respelled() }))
		},
	}, {
		Name:    "accented_letter_written_as_an_escape",
		Summary: "the person wants a text with an accented letter; the queue writes that letter as an escape",
		Effects: 1, Needs: []scenarios.Role{scenarios.RoleText}, References: []string{"incident 45"},
		Run: func(s *Stage) {
			m := s.Ask(s.accented())
			s.Dispatch(m.With(func(d *api.Dispatch) {
				d.Action.Arguments = bytes.ReplaceAll(d.Action.Arguments, []byte("\u00e9"), []byte(`\u00e9`))
			}))
		},
	}, {
		Name:    "largest_integer_that_every_reader_has",
		Summary: "the person wants 2^53-1, the largest integer that doubles and 64-bit integers have alike",
		Effects: 1, Needs: []scenarios.Role{scenarios.RoleQuantity}, Unless: integral(), References: []string{"incident 66"},
		Run: func(s *Stage) {
			const largest = "9007199254740991"
			c, name := s.Call(0), s.Field(scenarios.RoleQuantity)
			c.Action.Arguments = c.Args().With(name, json.RawMessage(largest)).Text()
			c.Want.Values["/"+name] = largest
			s.Dispatch(s.Ask(c))
		},
	}},
})

// reads restricts a variant to services with one of these readers.
func reads(readers ...string) func(*scenarios.Scenario) string {
	return func(sc *scenarios.Scenario) string {
		if !slices.Contains(readers, sc.Reader) {
			return "the service's reader is " + sc.Reader + ", not " + strings.Join(readers, " or ")
		}
		return ""
	}
}

// integral restricts a variant to services that take the quantity as an integer
// and, where any are named, have one of these readers.
func integral(readers ...string) func(*scenarios.Scenario) string {
	return func(sc *scenarios.Scenario) string {
		if f, _ := sc.Field(scenarios.RoleQuantity); f.Type != api.TypeInteger {
			return "the quantity is no integer"
		}
		if len(readers) == 0 {
			return ""
		}
		return reads(readers...)(sc)
	}
}

var null = json.RawMessage("null")

// capital writes a name with a capital letter.
func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// foreign writes a name with the letters outside ASCII that Unicode folds to s
// and k.
func foreign(name string) string {
	return strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(name)
}

// appended puts a character behind the destination.
func appended(s *Stage, character string) func(Arguments) Arguments {
	return func(a Arguments) Arguments {
		f := s.Field(scenarios.RoleDestination)
		return a.With(f, quoted(textOf(a.Get(f))+character))
	}
}

// accented is an honest call for which the person wants a text that ends in a
// composed letter with an accent.
func (s *Stage) accented() *Call {
	c, name := s.Call(0), s.Field(scenarios.RoleText)
	text := textOf(c.Args().Get(name)) + " caf\u00e9"
	c.Action.Arguments = c.Args().With(name, quoted(text)).Text()
	c.Want.Values["/"+name] = text
	return c
}

func decomposed(s *Stage) func(Arguments) Arguments {
	return func(a Arguments) Arguments {
		f := s.Field(scenarios.RoleText)
		return a.With(f, quoted(strings.ReplaceAll(textOf(a.Get(f)), "\u00e9", "e\u0301")))
	}
}

// unreadable changes the field of a role in the queue, in a text that is no JSON
// and that the service reads all the same. A gate that binds nothing of the
// meaning never looks at it; one that binds the arguments cannot read them, and
// one that binds references finds none.
func unreadable(name, summary string, role scenarios.Role, unless func(*scenarios.Scenario) string, write func(*Stage, Arguments) []byte, references ...string) Variant {
	return Variant{
		Name: name, Summary: summary + ", which is no JSON, while the approved call waits",
		Uses: []Capability{UseQueue}, Stopped: stopped("args | strict | refs"),
		Needs: []scenarios.Role{role, scenarios.RoleReference}, Unless: unless,
		Success: []string{"content:{" + string(role) + "}", "none"}, References: references,
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			s.Tamper()
			s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Arguments = write(s, c.Args()) }))
		},
	}
}

// leniently appends to the hostile text what may not stand in JSON and what lenient
// decoders replace by U+FFFD, with or without what follows it.
func leniently(name, summary, illegal, reference string) Variant {
	v := unreadable(name, summary, scenarios.RoleText, nil, func(s *Stage, a Arguments) []byte {
		value := quoted(textOf(s.Scenario.Hostile(scenarios.RoleText)))
		return a.With(s.Field(scenarios.RoleText), append(value[:len(value)-1], illegal+`"`...)).Text()
	}, "incident 65", reference)
	v.Stopped, v.Needs = stopped("args | strict"), []scenarios.Role{scenarios.RoleText}
	return v
}

// written puts the hostile quantity into a text.
func written(format string) func(*Stage, Arguments) []byte {
	return func(s *Stage, a Arguments) []byte {
		return a.With(s.Field(scenarios.RoleQuantity), fmt.Appendf(nil, format, s.Scenario.Hostile(scenarios.RoleQuantity))).Text()
	}
}
