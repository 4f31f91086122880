package api

import "encoding/json"

// An Action is one tool call an agent wants to make. The agent itself is the
// authenticated caller and never a member of the body.
type Action struct {
	Audience string `json:"audience"` // the service the call is for
	Tool     string `json:"tool"`
	// Arguments is the JSON text exactly as the agent emitted it. It travels as
	// base64, because a transport that re-encodes it would change what is approved.
	Arguments []byte `json:"arguments"`
	Run       string `json:"run"`
	Step      string `json:"step"`
	Call      string `json:"call"`
	// Hints are the caller's own annotations (compare the tool annotations of
	// the Model Context Protocol). A gateway with BindMediated ignores them.
	Hints Hints `json:"hints,omitzero"`
}

// Hints are claims that a caller makes about its own call.
type Hints struct {
	ReadOnly bool `json:"read_only,omitempty"`
	DryRun   bool `json:"dry_run,omitempty"`
}

// A ToolClass says whether a call needs approval.
type ToolClass string

const (
	ClassRead          ToolClass = "read"          // changes nothing
	ClassConsequential ToolClass = "consequential" // has an effect; gated by every mode but M0
	ClassReference     ToolClass = "reference"     // changes reference data; gated by BindSteer
)

// A FieldType is the JSON type of an argument.
type FieldType string

const (
	TypeString  FieldType = "string"
	TypeInteger FieldType = "integer" // an exact 64-bit integer at the provider
	TypeNumber  FieldType = "number"  // a double at the provider
	TypeBoolean FieldType = "boolean"
	TypeStrings FieldType = "strings" // an array of strings
)

// A Field describes one argument of a tool.
type Field struct {
	Name     string    `json:"name" yaml:"name"`
	Label    string    `json:"label" yaml:"label"` // as a product would caption it
	Type     FieldType `json:"type" yaml:"type"`
	Required bool      `json:"required,omitempty" yaml:"required,omitempty"`
	// Default is what the provider uses when the field is absent; JSON text,
	// empty for none.
	Default string `json:"default,omitempty" yaml:"default,omitempty"`
	// Material marks a field whose value changes what the effect is.
	Material bool `json:"material,omitempty" yaml:"material,omitempty"`
	// Reference names the kind of reference data this field points into
	// (supplier, list, tag, …); empty for a plain value.
	Reference string `json:"reference,omitempty" yaml:"reference,omitempty"`
	// Secret marks a string that products mask when they show it: a key, a code,
	// the number of a card or an account.
	Secret bool `json:"secret,omitempty" yaml:"secret,omitempty"`
}

// A Tool is one row of the tool table: the deployment's own knowledge of what a
// call does, never taken from a request.
type Tool struct {
	Audience string    `json:"audience" yaml:"audience"`
	Name     string    `json:"name" yaml:"name"`
	Title    string    `json:"title" yaml:"title"` // as a product would name it to a person
	Class    ToolClass `json:"class" yaml:"class"`
	Fields   []Field   `json:"fields" yaml:"fields"`
	// Summary lists the fields, in order, that a product's short summary shows.
	Summary []string `json:"summary" yaml:"summary"`
	// Risk is the risk label of the tool before any administrative change.
	Risk string `json:"risk" yaml:"risk"`
	// Guarantee is what the provider offers against duplicates for this tool.
	Guarantee Guarantee `json:"guarantee" yaml:"guarantee"`
	// Changes names the kind of reference data that a ClassReference tool changes.
	Changes string `json:"changes,omitempty" yaml:"changes,omitempty"`
}

// Field returns the field called name.
func (t Tool) Field(name string) (Field, bool) {
	for _, f := range t.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// A Guarantee is a provider's protection against executing twice.
type Guarantee string

const (
	// GuaranteeIdempotent returns the first result for a repeated idempotency
	// key, and answers look-ups.
	GuaranteeIdempotent Guarantee = "idempotent"
	// GuaranteeLookup executes whatever arrives and answers look-ups by key or
	// request id.
	GuaranteeLookup Guarantee = "lookup-only"
	// GuaranteeNone offers neither: a duplicate cannot be excluded.
	GuaranteeNone Guarantee = "none"
)

// Values are the values an effect acts on, by path: "/amount" for an argument,
// "/supplier_id>account" for a member of what a reference resolves to. Each value
// is JSON text in the shortest exact form of the reader that produced it.
type Values map[string]json.RawMessage
