package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The header of the file says whose it is: PRAGMA application_id ("CtSg") and
// the version of the schema in PRAGMA user_version.
const (
	applicationID = 0x43745367
	schemaVersion = 2
)

// schema makes an empty file a store. SQLite keeps these texts, so a file with a
// table, an index or a trigger that is not ours can be told.
var schema = []string{
	`CREATE TABLE rows (
	made INTEGER PRIMARY KEY, -- creation order
	kind TEXT NOT NULL,
	id   TEXT NOT NULL,
	key  TEXT NOT NULL,
	rev  INTEGER NOT NULL,
	body BLOB NOT NULL,
	sum  BLOB NOT NULL -- SHA-256 of the others, but made
) STRICT`,
	`CREATE UNIQUE INDEX rows_by_id ON rows (kind, id)`,
	`CREATE INDEX rows_by_key ON rows (kind, key, made)`,
	`CREATE TABLE counters (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL,
	sum   BLOB NOT NULL
) STRICT, WITHOUT ROWID`,
}

// SQLite is a Store in one file that several processes on one machine may open
// at the same time. What it answers is on the disk: every change is synchronised
// before the call returns. Changes that come together are synchronised together.
//
// A damaged file must not make something spent good again. So opening holds every
// index against its table and every row against its checksum, and a row is held
// against what it was asked for whenever it is read. Not noticed: damage to a
// write-ahead log that a crash left behind, whose end SQLite then takes for
// unfinished, and what a program that writes the file itself does.
type SQLite struct {
	write  *sql.DB // one connection: writers of a process queue here, not in SQLite
	read   *sql.DB
	insert *sql.Stmt // on write
	update *sql.Stmt // on write
	group  *group[change]
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the store in the file at path, and creates it if there is
// none or an empty one. It checks the whole file and refuses one that is damaged,
// that is something else, or that a newer version wrote; such a file is left as
// it is.
func OpenSQLite(path string) (*SQLite, error) {
	if path == "" {
		return nil, errors.New("opening the store: no path given")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	// Made here and not by SQLite, whose files anyone may read.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := new(SQLite)
	if s.write, err = connect(path, 1, "synchronous(FULL)"); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	if s.read, err = connect(path, 4, "query_only(1)"); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", path, err), s.write.Close())
	}
	if err := s.prepare(path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	var err1, err2 error
	s.insert, err1 = s.write.Prepare(`INSERT INTO rows (kind, id, key, rev, body, sum) VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`)
	s.update, err2 = s.write.Prepare(`UPDATE rows SET key = ?, rev = ?, body = ?, sum = ? WHERE kind = ? AND id = ? AND rev = ?`)
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", path, err), s.Close())
	}
	s.group = newGroup(s.commit)
	return s, nil
}

func connect(path string, connections int, pragmas ...string) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": append([]string{"busy_timeout(10000)", "trusted_schema(0)"}, pragmas...),
	}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// prepare makes sure that the file is a sound store of this version. It changes
// nothing before it knows that.
func (s *SQLite) prepare(path string) error {
	ctx := context.Background()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return notAStore(path, err)
	}
	defer tx.Rollback() // no effect after Commit
	var id, version int64
	if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return notAStore(path, err)
	}
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return notAStore(path, err)
	}
	have, err := texts(ctx, tx, "SELECT coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_autoindex_%' ORDER BY rowid")
	if err != nil {
		return notAStore(path, err)
	}
	switch {
	case id == 0 && version == 0 && len(have) == 0:
		for _, text := range append([]string{
			fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
		}, schema...) {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("creating the store %s: %w", path, err)
			}
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("creating the store %s: %w", path, err)
		}
	case id != applicationID:
		return fmt.Errorf("%s is not a Countersign store: it belongs to another application", path)
	case version > schemaVersion:
		return fmt.Errorf("the store %s has schema %d, this program knows up to %d: use a newer program", path, version, schemaVersion)
	case version < schemaVersion || !slices.Equal(have, schema):
		return fmt.Errorf("%s is not a Countersign store: its tables are not those of schema %d", path, schemaVersion)
	default:
		if err := tx.Rollback(); err != nil {
			return fmt.Errorf("opening the store %s: %w", path, err)
		}
	}
	// quick_check would not compare indexes with tables, and a spent permit is
	// looked up in an index.
	findings, err := texts(ctx, s.write, "PRAGMA integrity_check(1)")
	if err == nil && !slices.Equal(findings, []string{"ok"}) {
		err = errors.New(strings.Join(findings, "; "))
	}
	if err == nil {
		err = s.checkSums(ctx)
	}
	if err != nil {
		return fmt.Errorf("the store %s is damaged, restore it from a copy: %w", path, err)
	}
	return s.walMode(ctx, path)
}

// checkSums reads the whole store.
func (s *SQLite) checkSums(ctx context.Context) error {
	rows, err := s.write.QueryContext(ctx, "SELECT kind, id, key, rev, body, sum FROM rows UNION ALL SELECT '', name, '', value, x'', sum FROM counters")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		var sum []byte
		if err := rows.Scan(&r.Kind, &r.ID, &r.Key, &r.Rev, &r.Body, &sum); err != nil {
			return err
		}
		if err := checkSum(r, sum); err != nil {
			return fmt.Errorf("row %q %q: %w", r.Kind, r.ID, err)
		}
	}
	return rows.Err()
}

// walMode lets readers and the writer work side by side. Two processes that
// switch a new file at the same moment can block each other, which SQLite
// reports at once instead of waiting; so try again.
func (s *SQLite) walMode(ctx context.Context, path string) error {
	var mode string
	var err error
	for range 100 {
		err = s.write.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if code(err) != sqlite3.SQLITE_BUSY {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil && mode != "wal" {
		err = fmt.Errorf("the journal mode is %q; does the file system have shared memory?", mode)
	}
	if err != nil {
		return fmt.Errorf("switching the store %s to a write-ahead log: %w", path, err)
	}
	return nil
}

func notAStore(path string, err error) error {
	if c := code(err); c == sqlite3.SQLITE_NOTADB || c == sqlite3.SQLITE_CORRUPT {
		return fmt.Errorf("%s is not a Countersign store, or is damaged beyond reading: %w", path, err)
	}
	return fmt.Errorf("opening the store %s: %w", path, err)
}

// code returns SQLite's primary result code, 0 for another error or none.
func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func texts(ctx context.Context, q querier, query string) ([]string, error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

func (s *SQLite) ready() error {
	if s.group == nil {
		return errClosed
	}
	return nil
}

// A change is made in a transaction, among those of other callers. It returns an
// answer of the store or nothing; any other error fails the transaction, and what
// else was in it is then tried again without it.
type change func(ctx context.Context, tx *sql.Tx) error

// commit writes a group of changes in one transaction. No caller is told anything
// before it is on the disk, and a commit that fails has failed for all of them.
func (s *SQLite) commit(jobs []*job[change]) {
	culprit, err := s.transact(jobs)
	if culprit != nil && len(jobs) > 1 {
		// A statement that fails is its caller's affair. Nothing was written yet, so
		// each gets a transaction of its own.
		for _, j := range jobs {
			if _, err := s.transact([]*job[change]{j}); err != nil {
				j.err = err
			}
		}
		return
	}
	if err != nil {
		for _, j := range jobs {
			j.err = err
		}
	}
}

// transact sets the answers of changes, which hold if it returns no error: an
// error says that none was written. It names the change whose statement failed.
func (s *SQLite) transact(jobs []*job[change]) (culprit *job[change], err error) {
	ctx := context.Background() // a caller that gives up does not take the others along
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // no effect after Commit
	for _, j := range jobs {
		if j.err = j.ctx.Err(); j.err != nil {
			continue
		}
		if j.err = j.change(ctx, tx); j.err != nil && !isAnswer(j.err) {
			return j, j.err
		}
	}
	return nil, tx.Commit()
}

// Create implements [Store]. The insertion is the compare-and-set: one statement
// under SQLite's write lock, so nothing is read first.
func (s *SQLite) Create(ctx context.Context, r Row) (Row, error) {
	if err := errors.Join(s.ready(), checkNames(r.Kind, r.ID)); err != nil {
		return Row{}, fail("creating", r.Kind, r.ID, err)
	}
	r = copyOf(r)
	r.Rev = 1
	err := s.group.submit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := affected(tx.StmtContext(ctx, s.insert).ExecContext(ctx, r.Kind, r.ID, r.Key, notNull(r.Body), rowSum(r)))
		if err == nil && n == 0 {
			err = ErrExists
		}
		return err
	})
	if err != nil {
		return Row{}, fail("creating", r.Kind, r.ID, err)
	}
	return r, nil
}

// Update implements [Store].
func (s *SQLite) Update(ctx context.Context, r Row) (Row, error) {
	if err := s.ready(); err != nil {
		return Row{}, fail("updating", r.Kind, r.ID, err)
	}
	r = copyOf(r)
	was := r.Rev
	r.Rev++
	err := s.group.submit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := affected(tx.StmtContext(ctx, s.update).ExecContext(ctx, r.Key, r.Rev, notNull(r.Body), rowSum(r), r.Kind, r.ID, was))
		if err == nil && n == 0 {
			if _, err = read(ctx, tx, r.Kind, r.ID); err == nil {
				err = ErrStale
			}
		}
		return err
	})
	if err != nil {
		return Row{}, fail("updating", r.Kind, r.ID, err)
	}
	return r, nil
}

// Get implements [Store].
func (s *SQLite) Get(ctx context.Context, kind, id string) (Row, error) {
	if err := s.ready(); err != nil {
		return Row{}, fail("reading", kind, id, err)
	}
	r, err := read(ctx, s.read, kind, id)
	if err != nil {
		return Row{}, fail("reading", kind, id, err)
	}
	return r, nil
}

func read(ctx context.Context, q querier, kind, id string) (Row, error) {
	r := Row{Kind: kind, ID: id}
	var sum []byte
	err := q.QueryRowContext(ctx, `SELECT key, rev, body, sum FROM rows WHERE kind = ? AND id = ?`, kind, id).Scan(&r.Key, &r.Rev, &r.Body, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, ErrNotFound
	}
	if err == nil {
		err = checkSum(r, sum)
	}
	return r, err
}

// Find implements [Store].
func (s *SQLite) Find(ctx context.Context, kind, key string) ([]Row, error) {
	if err := s.ready(); err != nil {
		return nil, fail("finding", kind, key, err)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT id, rev, body, sum FROM rows WHERE kind = ? AND key = ? ORDER BY made DESC`, kind, key)
	if err != nil {
		return nil, fail("finding", kind, key, err)
	}
	defer rows.Close()
	var found []Row
	for rows.Next() {
		r := Row{Kind: kind, Key: key}
		var sum []byte
		if err := rows.Scan(&r.ID, &r.Rev, &r.Body, &sum); err != nil {
			return nil, fail("finding", kind, key, err)
		}
		if err := checkSum(r, sum); err != nil {
			return nil, fail("finding", kind, key, err)
		}
		found = append(found, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fail("finding", kind, key, err)
	}
	return found, nil
}

// Next implements [Store].
func (s *SQLite) Next(ctx context.Context, counter string) (int64, error) {
	if err := s.ready(); err != nil {
		return 0, fail("counting", "counter", counter, err)
	}
	var n int64
	err := s.group.submit(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		n, err = count(ctx, tx, counter)
		return err
	})
	if err != nil { // and n may still be written to
		return 0, fail("counting", "counter", counter, err)
	}
	return n, nil
}

func count(ctx context.Context, tx *sql.Tx, counter string) (n int64, err error) {
	var sum []byte
	err = tx.QueryRowContext(ctx, `SELECT value, sum FROM counters WHERE name = ?`, counter).Scan(&n, &sum)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return 0, err
	default:
		if err := checkSum(Row{ID: counter, Rev: n}, sum); err != nil {
			return 0, err
		}
	}
	n++
	_, err = tx.ExecContext(ctx, `INSERT INTO counters (name, value, sum) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, sum = excluded.sum`, counter, n, rowSum(Row{ID: counter, Rev: n}))
	return n, err
}

// Close implements [Store]. Calls in progress finish first.
func (s *SQLite) Close() error {
	if s.group != nil {
		s.group.close()
	}
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} { // the statements go with them
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

func affected(result sql.Result, err error) (rows int64, _ error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// notNull is the body as SQL wants it: a nil slice would be NULL.
func notNull(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}
