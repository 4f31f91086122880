package modes_test

import (
	"strings"
	"testing"

	"countersign/modes"
)

// TestNamesAreTakenAsTheyAre: a name that would have to be changed to be one, and a
// binding left out twice, are refused; what is left of a mode says what it lacks.
func TestNamesAreTakenAsTheyAre(t *testing.T) {
	if m, err := modes.ParseComposed("my mode=record,args"); err == nil {
		t.Errorf("the name with a blank became %q", m.ID)
	}
	if m, err := modes.ParseComposed("mine = record, args"); err != nil || m.ID != "mine" {
		t.Errorf("%q, %v", m.ID, err)
	}
	if _, err := modes.Get("M9-args-args"); err == nil || !strings.Contains(err.Error(), "left out twice") {
		t.Errorf("the error is %v", err)
	}
	m, err := modes.Get("M9-args")
	if err != nil || !strings.HasSuffix(m.Title, "here without args") {
		t.Errorf("%q, %v", m.Title, err)
	}
}
