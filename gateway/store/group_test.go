package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// Changes that come while others are written are written together; each caller is
// told about its own, after the commit, and one that gives up disturbs nobody.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errOdd := errors.New("odd")
		var sizes []int
		begin := make(chan struct{})
		g := newGroup(func(jobs []*job[int]) {
			<-begin
			sizes = append(sizes, len(jobs))
			for _, j := range jobs {
				if j.change%2 == 1 {
					j.err = errOdd
				}
			}
		})
		const calls = maxGroup + 41
		mine, giveUp := context.WithCancel(t.Context())
		answers := make(chan error, calls)
		call := func(i int) {
			ctx := t.Context()
			if i == 7 {
				ctx = mine
			}
			err := g.submit(ctx, i)
			want := error(nil)
			switch {
			case i == 7:
				want = context.Canceled
			case i%2 == 1:
				want = errOdd
			}
			if !errors.Is(err, want) || want == nil && err != nil {
				err = fmt.Errorf("call %d was told %v, want %v", i, err, want)
			} else {
				err = nil
			}
			answers <- err
		}
		go call(0)
		synctest.Wait() // it is being committed
		for i := 1; i < calls; i++ {
			go call(i)
		}
		giveUp()
		synctest.Wait()
		if n := len(answers); n != 1 {
			t.Errorf("%d calls were answered before any commit, want the one that gave up", n)
		}
		close(begin)
		for range calls {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		g.close()
		g.close()
		if err := g.submit(t.Context(), 0); !errors.Is(err, errClosed) {
			t.Errorf("after closing: %v", err)
		}
		if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != maxGroup {
			t.Errorf("groups of %v, want 1, %d and the rest", sizes, maxGroup)
		}
	})
}
