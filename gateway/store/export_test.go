package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"modernc.org/sqlite"
)

// LimitPages makes the file of a store too full for more than n pages besides
// those it has.
func LimitPages(s *SQLite, n int) error {
	var pages int
	if err := s.write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	_, err := s.write.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+n))
	return err
}

// FailCommits makes the commits of a store fail while fail is set.
func FailCommits(s *SQLite, fail *atomic.Bool) error {
	c, err := s.write.Conn(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Raw(func(driver any) error {
		hooks, ok := driver.(sqlite.HookRegisterer)
		if !ok {
			return fmt.Errorf("%T has no hooks", driver)
		}
		hooks.RegisterCommitHook(func() int32 {
			if fail.Load() {
				return 1
			}
			return 0
		})
		return nil
	})
}
