package httpapi

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzBodies posts arbitrary bytes to every POST address: the server never
// panics, never fails, and what it accepts it would write and read again alike.
func FuzzBodies(f *testing.F) {
	var posts []*route
	for i := range routes {
		r := &routes[i]
		if r.method != "POST" {
			continue
		}
		posts = append(posts, r)
		if in := sample[r.operation].in; in != nil {
			b, err := encode(in)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	for _, s := range []string{"", "{}", "null", `{"suspension":"s1","verdict":"approve","verdict":"decline"}`, `{"suspension":"s1","verdict":"approve","assertion":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, r := range posts {
			target := &fake{answer: sample[r.operation].out}
			w := serveOne(NewHandler(target), r.request(t, string(body)))
			switch {
			case w.Code >= 500:
				t.Fatalf("%s: %d %s", r.path, w.Code, w.Body)
			case w.Code >= 300 && target.calls > 0:
				t.Fatalf("%s: %d, and the target was called", r.path, w.Code)
			case w.Code < 300 && target.calls != 1:
				t.Fatalf("%s: %d, and the target was called %d times", r.path, w.Code, target.calls)
			}
			if w.Code >= 300 || r.in == nil {
				continue
			}
			again, err := encode(target.got)
			if err != nil {
				t.Fatalf("%s: writing what was read: %v", r.path, err)
			}
			into := reflect.New(reflect.TypeOf(r.in))
			if err := decodeRequest(again, into.Interface()); err != nil {
				t.Fatalf("%s: reading %s again: %v", r.path, again, err)
			}
			twice, err := encode(into.Elem().Interface())
			if err != nil || !bytes.Equal(again, twice) {
				t.Fatalf("%s: %s was read as %s: %v", r.path, again, twice, err)
			}
		}
	})
}

// FuzzAnswers gives the client arbitrary answers: it never panics, and reports an
// error of the contract only for an answer that says so.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"status":"executed"}`))
	f.Add(403, []byte(`{"error":{"code":"refused","detail":"d","refusals":[{"binding":"args","code":"c"}]}}`))
	f.Add(501, []byte(`{"error":{"code":"unimplemented","detail":"d","feature":"f"}}`))
	f.Fuzz(checkAnswer)
}
