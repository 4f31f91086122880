package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"countersign/results"
)

// SARIF writes a comparison with a baseline as SARIF 2.1.0: one rule for each
// variant of the run's catalogue, with what it is and what stops it, and a result
// for each regression, each entry with trials that could not be carried out and, if
// strict, each with trials blocked for another reason than predicted. Results point
// at the entry's line of the baseline file, where a reviewer would accept them.
// baseline is the path of that file from the root of the repository, with slashes.
//
// The form is what GitHub's code scanning needs: rules with help, one physical
// location a result, and fingerprints that stay when lines move.
func SARIF(w io.Writer, k *results.Check, c results.Catalogue, baseline string, strict bool) error {
	run := sarif.NewRun()
	run.Tool = sarif.NewTool().WithDriver(sarif.NewToolComponent().WithName("countersign").
		WithFullName("Countersign: approval binding of agent actions"))
	index := map[string]int{}
	for _, a := range c.Attacks {
		for _, v := range a.Variants {
			id := a.ID + "/" + v.Name
			if _, twice := index[id]; twice {
				continue // an attack and its twin of one name
			}
			index[id] = len(index)
			run.Tool.Driver.AddRule(rule(a, v, id))
		}
	}
	const plain = "honest/plain"
	index[plain] = len(index)
	run.Tool.Driver.AddRule(describedRule(plain, "Honest action refused", "The plain run of a scenario: one call, approved and executed.",
		"A gate that does not let an honest action through is of no use, whatever it blocks.", nil).
		WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel("error")))

	for _, x := range k.Cases {
		level, text := "", ""
		switch {
		case x.Change == results.Regression:
			level, text = "error", x.Why
		case strict && x.WrongReasons() > 0:
			level, text = "error", wrongReasonText(x)
		case x.Errors() > 0:
			level, text = "warning", errorText(x)
		default:
			continue
		}
		e := x.Entry()
		id := e.Attack + "/" + e.Variant
		if e.Kind == results.Honest {
			id = plain
		}
		i, known := index[id]
		if !known {
			return fmt.Errorf("writing SARIF: %s is not in the catalogue of the run", e.Name())
		}
		run.AddResult(result(e, id, i, level, clean(e.Target+": "+text), baseline, x.Line))
	}
	report := sarif.NewReport()
	report.AddRun(run)
	if err := report.PrettyWrite(w); err != nil {
		return fmt.Errorf("writing SARIF: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("writing SARIF: %w", err)
	}
	return nil
}

func result(e results.BaselineEntry, id string, index int, level, message, file string, line int) *sarif.Result {
	r := sarif.NewRuleResult(id)
	r.RuleIndex, r.Level, r.Kind = index, level, "fail"
	// The line moves when entries are added; who and what does not.
	print := sha256.Sum256([]byte(strings.Join([]string{e.Target, e.Attack, e.Variant, string(e.Kind)}, "\x00")))
	// The key is the one by which GitHub follows an alert from run to run.
	r.PartialFingerprints = map[string]string{"primaryLocationLineHash": hex.EncodeToString(print[:8]) + ":1"}
	return r.WithMessage(sarif.NewTextMessage(message)).AddLocation(
		sarif.NewLocationWithPhysicalLocation(sarif.NewPhysicalLocation().
			WithArtifactLocation(sarif.NewSimpleArtifactLocation((&url.URL{Path: file}).EscapedPath())).
			WithRegion(sarif.NewSimpleRegion(line, line))))
}

func rule(a results.AttackInfo, v results.VariantInfo, id string) *sarif.ReportingDescriptor {
	name := strings.ReplaceAll(v.Name, "_", " ")
	if v.Kind == results.Twin {
		return describedRule(id, a.ID+": benign flow refused: "+name, sentence(v.Summary),
			"This flow is honest throughout. A gate that refuses it loses what it is there to let through.", v.References).
			WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel("error"))
	}
	help := fmt.Sprintf("Family %s, %s. It is stopped by: %s. The adversary uses: %s. "+
		"If it executed, look at the checks that the condition names, at the place where the action is carried out: "+
		"what one of them compares was not compared, or not there.", a.ID, a.Title, v.Condition, list(v.Capabilities))
	return describedRule(id, a.ID+" "+a.Title+": "+name, sentence(v.Summary), help, v.References).
		WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel("error"))
}

func describedRule(id, short, full, help string, references []string) *sarif.ReportingDescriptor {
	text := sarif.NewMultiformatMessageString
	markdown := escapeMarkdown(full) + "\n\n" + escapeMarkdown(help)
	if len(references) > 0 {
		help += " References: " + strings.Join(references, "; ") + "."
		markdown += "\n\nReferences:\n"
		for _, r := range references {
			markdown += "\n- " + escapeMarkdown(r)
		}
	}
	properties := sarif.NewPropertyBag()
	properties.Tags = []string{"security", "approval"}
	properties.Add("precision", "very-high")
	properties.Add("security-severity", "8.0")
	r := sarif.NewRule(id).
		WithName(strings.NewReplacer("/", "_").Replace(id)).
		WithShortDescription(text().WithText(clean(short))).
		WithFullDescription(text().WithText(clean(full))).
		WithHelp(text().WithText(clean(full + " " + help)).WithMarkdown(markdown))
	r.Properties = properties
	return r
}

// sentence gives a summary its capital and full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
