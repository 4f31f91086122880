package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"countersign/gateway/api"
)

func loadDocument(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(Document())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatalf("the document is not valid OpenAPI: %v", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc, router
}

func TestDocumentListsTheRoutes(t *testing.T) {
	doc, _ := loadDocument(t)
	type op struct {
		id, in, out string
		open, after bool
	}
	schema := func(c openapi3.Content) string {
		if m := c.Get("application/json"); m != nil {
			if m.Schema.Value.Type.Is("array") {
				return "[]" + m.Schema.Value.Items.Ref
			}
			return m.Schema.Ref
		}
		return ""
	}
	inDocument, inTable := map[string]op{}, map[string]op{}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			got := op{id: o.OperationID, open: o.Security != nil && len(*o.Security) == 0}
			if o.RequestBody != nil {
				got.in = schema(o.RequestBody.Value.Content)
				if !o.RequestBody.Value.Required {
					t.Errorf("%s %s: the body is not required", method, path)
				}
			}
			if ok := o.Responses.Status(200); ok != nil {
				got.out = schema(ok.Value.Content)
			}
			got.after = o.Parameters.GetByInAndName("query", "after") != nil
			if hasID := o.Parameters.GetByInAndName("path", "id") != nil; hasID != strings.Contains(path, "{id}") {
				t.Errorf("%s %s: path parameter declared: %v", method, path, hasID)
			}
			if proof := o.Parameters.GetByInAndName("header", "DPoP") != nil; proof == got.open {
				t.Errorf("%s %s: DPoP header declared: %v, open: %v", method, path, proof, got.open)
			}
			inDocument[method+" "+path] = got
		}
	}
	const prefix = "#/components/schemas/"
	component := func(v any) string {
		if v == nil {
			return ""
		}
		if t := reflect.TypeOf(v); t != typeRaw && t.Kind() == reflect.Slice {
			return "[]" + prefix + t.Elem().Name()
		}
		return prefix + strings.Replace(reflect.TypeOf(v).Name(), "RawMessage", "JSON", 1)
	}
	for _, r := range routes {
		inTable[r.method+" "+r.path] = op{r.operation, component(r.in), component(r.out), r.open, r.after}
	}
	if diff := cmp.Diff(inTable, inDocument, cmp.AllowUnexported(op{})); diff != "" {
		t.Errorf("table (-) and document (+) differ:\n%s", diff)
	}
	if len(routes) != 15 {
		t.Errorf("%d routes", len(routes))
	}
}

// Every member of every type on the wire is in the document with its form, and
// the document has no other.
func TestDocumentDescribesTheTypes(t *testing.T) {
	doc, _ := loadDocument(t)
	constants := apiConstants(t)
	seen := map[string]bool{"Error": true, "JSON": true}
	var check func(t *testing.T, at string, typ reflect.Type, ref *openapi3.SchemaRef)
	check = func(t *testing.T, at string, typ reflect.Type, ref *openapi3.SchemaRef) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		s := ref.Value
		is := func(kind, format string) {
			if !s.Type.Is(kind) || s.Format != format {
				t.Errorf("%s: document has %v/%q, the type %v needs %s/%q", at, s.Type, s.Format, typ, kind, format)
			}
		}
		switch {
		case typ == typeRaw:
			if ref.Ref != "#/components/schemas/JSON" || s.Type != nil || !s.Nullable {
				t.Errorf("%s: a raw message is to be any JSON", at)
			}
		case typ == typeTime:
			is("string", "date-time")
		case typ.Kind() == reflect.Bool:
			is("boolean", "")
		case typ.Kind() == reflect.Int64:
			is("integer", "int64")
		case typ.Kind() == reflect.String:
			is("string", "")
			var inDocument []string
			for _, v := range s.Enum {
				inDocument = append(inDocument, v.(string))
			}
			if diff := cmp.Diff(enums[typ], inDocument); diff != "" {
				t.Errorf("%s: values in code (-) and document (+) differ:\n%s", at, diff)
			}
			if declared, ok := constants[typ.Name()]; ok && typ.Name() != "Binding" && typ.Name() != "Alert" { // open sets
				if diff := cmp.Diff(declared, inDocument); diff != "" {
					t.Errorf("%s: constants (-) and document (+) differ:\n%s", at, diff)
				}
			}
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8:
			is("string", "byte")
		case typ.Kind() == reflect.Slice:
			is("array", "")
			check(t, at+"[]", typ.Elem(), s.Items)
		case typ.Kind() == reflect.Map:
			is("object", "")
			seen[typ.Name()] = true
			check(t, at+"{}", typ.Elem(), s.AdditionalProperties.Schema)
		case typ.Kind() == reflect.Struct:
			is("object", "")
			if typ.PkgPath() == reflect.TypeFor[api.Action]().PkgPath() || typ == reflect.TypeFor[Readiness]() {
				if ref.Ref != "#/components/schemas/"+typ.Name() {
					t.Errorf("%s: refers to %q", at, ref.Ref)
				}
				if seen[typ.Name()] {
					return
				}
				seen[typ.Name()] = true
			}
			if s.AdditionalProperties.Has == nil || *s.AdditionalProperties.Has {
				t.Errorf("%s: further members are not excluded", at)
			}
			var inCode, required, inDocument []string
			for _, m := range members(typ) {
				inCode = append(inCode, m.name)
				if m.required {
					required = append(required, m.name)
				}
				if p := s.Properties[m.name]; p != nil {
					check(t, at+"."+m.name, m.typ, p)
				}
			}
			for name := range s.Properties {
				inDocument = append(inDocument, name)
			}
			slices.Sort(inCode)
			slices.Sort(inDocument)
			if diff := cmp.Diff(inCode, inDocument); diff != "" {
				t.Errorf("%s: members in code (-) and document (+) differ:\n%s", at, diff)
			}
			if diff := cmp.Diff(required, s.Required); diff != "" {
				t.Errorf("%s: members always written (-) and required (+) differ:\n%s", at, diff)
			}
		default:
			t.Errorf("%s: no form for %v", at, typ)
		}
	}
	types := []reflect.Type{}
	for _, r := range routes {
		for _, v := range []any{r.in, r.out} {
			if v != nil && reflect.TypeOf(v) != typeRaw {
				types = append(types, reflect.TypeOf(v))
			}
		}
	}
	for _, typ := range types {
		if typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		ref := &openapi3.SchemaRef{Ref: "#/components/schemas/" + typ.Name()}
		if c := doc.Components.Schemas[typ.Name()]; c != nil {
			ref.Value = c.Value
			check(t, typ.Name(), typ, ref)
		} else {
			t.Errorf("no schema for %v", typ)
		}
	}
	check(t, "Error", reflect.TypeFor[errorAnswer](), doc.Components.Schemas["Error"])
	for name := range doc.Components.Schemas {
		if !seen[name] {
			t.Errorf("schema %s is of no type on the wire", name)
		}
	}
}

// apiConstants reads, from the source of the contract, the constants of each
// named string type, in order.
func apiConstants(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../api/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of the contract: %v", err)
	}
	out := map[string][]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				typ, ok := v.Type.(*ast.Ident)
				if !ok {
					t.Fatalf("%s: constant %s has no type", name, v.Names[0])
				}
				s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out[typ.Name] = append(out[typ.Name], s)
			}
		}
	}
	return out
}

// Every request below is a real one, and request and answer are what the document
// says; every status that the document gives for an operation is seen.
func TestAnswersMatchTheDocument(t *testing.T) {
	doc, router := loadDocument(t)
	options := &openapi3filter.Options{
		MultiError:                        true,
		IncludeResponseStatus:             true,
		RejectWhenRequestBodyNotSpecified: true,
		AuthenticationFunc:                openapi3filter.NoopAuthenticationFunc,
	}
	seen := map[string]bool{}
	serve := func(t *testing.T, r *route, req *http.Request, h http.Handler, good bool) {
		t.Helper()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatal(err)
		}
		set := func() { req.Body = io.NopCloser(strings.NewReader(string(body))) }
		set()
		found, params, err := router.FindRoute(req)
		if err != nil {
			t.Fatal(err)
		}
		input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: found, Options: options}
		if err := openapi3filter.ValidateRequest(context.Background(), input); (err == nil) != good {
			t.Errorf("%s: request valid by the document: %v, expected %v: %v", r.operation, err == nil, good, err)
		}
		set()
		w := serveOne(h, req)
		seen[r.operation+" "+strconv.Itoa(w.Code)] = true
		response := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: w.Code, Header: w.Header(), Options: options}
		response.SetBodyBytes(w.Body.Bytes())
		if err := openapi3filter.ValidateResponse(context.Background(), response); err != nil {
			t.Errorf("%s: answer %d %s: %v", r.operation, w.Code, w.Body, err)
		}
	}
	try := func(t *testing.T, r *route, req *http.Request, target *fake, good bool) {
		t.Helper()
		serve(t, r, req, NewHandler(target), good)
	}
	failures := []error{errors.New("other"), &api.RefusedError{Refusals: []api.Refusal{refusal}}, &api.UnimplementedError{Feature: "f", Reason: "r"}}
	for _, s := range sentinels {
		failures = append(failures, fmt.Errorf("with words: %w", s.err))
	}
	for i := range routes {
		r := &routes[i]
		try(t, r, r.request(t), &fake{answer: sample[r.operation].out}, true)
		limited, err := Config{Target: &fake{answer: sample[r.operation].out}, Clock: stopped{}, Strangers: Rate{1, 1}}.Handler()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			serve(t, r, r.request(t), limited, true)
		}
		if r.call == nil {
			continue
		}
		try(t, r, r.request(t), &fake{during: func(context.Context) { panic("x") }}, true)
		unknown := r.request(t)
		unknown.URL.RawQuery = "unknown=1"
		try(t, r, unknown, &fake{}, true)
		for _, err := range failures {
			try(t, r, r.request(t), &fake{err: err}, true)
		}
		empty := &fake{} // every nil slice and map, except that sets have no empty value
		switch r.operation {
		case "propose":
			empty.answer = api.Pending{State: api.StateExempt}
		case "dispatch":
			empty.answer = api.Outcome{Status: api.Executed}
		}
		try(t, r, r.request(t), empty, true)
		if !r.open {
			req := r.request(t)
			req.Header.Del("Authorization")
			try(t, r, req, &fake{}, true)
		}
		if r.method == "POST" {
			try(t, r, r.request(t, strings.Repeat(" ", MaxBody+1)), &fake{}, false)
		}
		if r.in != nil {
			req := r.request(t)
			req.Header.Set("Content-Type", "text/plain")
			try(t, r, req, &fake{}, false)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			for status := range o.Responses.Map() {
				if !seen[o.OperationID+" "+status] {
					t.Errorf("%s %s: status %s is in the document and was never seen", method, path, status)
				}
			}
		}
	}
}

// What the document excludes, the server refuses, and the other way round.
func TestDocumentAndServerAgreeOnBadBodies(t *testing.T) {
	_, router := loadDocument(t)
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	for i := range routes {
		r := &routes[i]
		if r.in == nil || reflect.TypeOf(r.in) == typeRaw {
			continue
		}
		good, err := encode(sample[r.operation].in)
		if err != nil {
			t.Fatal(err)
		}
		for what, body := range variants(t, good) {
			req := r.request(t, body)
			found, params, err := router.FindRoute(req)
			if err != nil {
				t.Fatal(err)
			}
			byDocument := openapi3filter.ValidateRequest(context.Background(),
				&openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: found, Options: options})
			w := serveOne(NewHandler(&fake{answer: sample[r.operation].out}), r.request(t, body))
			if byServer := w.Code < 300; byServer != (byDocument == nil) {
				t.Errorf("%s, %s: server answers %d %s, document says %v", r.operation, what, w.Code, w.Body, byDocument)
			}
		}
	}
}

// variants returns bodies that differ from a good one in one member: left out,
// null, of another type, or unknown.
func variants(t *testing.T, good []byte) map[string]string {
	t.Helper()
	var body map[string]any
	dec := json.NewDecoder(bytes.NewReader(good))
	dec.UseNumber()
	if err := dec.Decode(&body); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	add := func(what string) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		out[what] = string(b)
	}
	add("whole")
	var visit func(at string, m map[string]any)
	visit = func(at string, m map[string]any) {
		m["extra"] = 1
		add("unknown member in " + at)
		delete(m, "extra")
		for name, v := range m {
			if name == "assertion" || at == "/action" && name == "suspension" {
				continue
			}
			delete(m, name)
			add("without " + at + "/" + name)
			for what, other := range map[string]any{"null": nil, "number": 1.5, "array": []any{1}, "object": map[string]any{"q": true}} {
				m[name] = other
				add(what + " as " + at + "/" + name)
			}
			m[name] = v
			if inner, ok := v.(map[string]any); ok {
				visit(at+"/"+name, inner)
			}
		}
	}
	visit("", body)
	return out
}
