package store

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits on what a PostgreSQL server may take. Callers set shorter ones with their
// contexts; these keep a call without one from waiting for ever.
const (
	callTimeout    = 15 * time.Second // of a call, waiting for a free connection included
	connectTimeout = 5 * time.Second
	openTimeout    = 5 * time.Minute // checking every row included
	defaultPool    = 16              // connections of a process, unless the address says pool_max_conns
)

// oldestPostgres is the oldest server that this is known to work with.
const oldestPostgres = 14

// session is what every connection is set to, whatever role, database and address
// say.
var session = map[string]string{
	"default_transaction_isolation": "read committed",
	"default_transaction_read_only": "off",
	"search_path":                   "pg_catalog, pg_temp", // no operator or function of somebody else's
	"row_security":                  "off",                 // an error instead of a row that is not seen
}

// defaults is what a connection is set to unless the address says otherwise.
var defaults = map[string]string{
	"application_name":                    "countersign",
	"synchronous_commit":                  "on", // or remote_apply, which is more
	"lock_timeout":                        "5s",
	"statement_timeout":                   "10s",
	"idle_in_transaction_session_timeout": "10s",
}

// Parameters of an address that are this package's and not the server's.
const (
	unsafeParameter  = "unsafe_durability" // "accept"
	historyParameter = "accept_history"    // a history, or "any"
)

// migrations are run in the order of their names, which begin with their numbers.
//
//go:embed migrations/*.sql
var migrations embed.FS

// SQL that computes what digest computes. Its arguments are of type bytea.
func sqlDigest(parts ...string) string {
	for i, p := range parts {
		parts[i] = fmt.Sprintf("int8send(length(%s)::int8) || %[1]s", p)
	}
	return "sha256(" + strings.Join(parts, " || ") + ")"
}

var (
	insertRows = `INSERT INTO countersign.rows (name, place, kind, id, key, rev, body, sum)
		SELECT name, place, kind, id, key, 1, body, sum
		FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[]) AS r (name, place, kind, id, key, body, sum)
		ON CONFLICT DO NOTHING RETURNING name`
	updateRow = `UPDATE countersign.rows SET place = $2, key = $3, rev = $4, body = $5, sum = $6 WHERE name = $1 AND rev = $7`
	selectRow = `SELECT key, rev, body, sum FROM countersign.rows WHERE name = $1`
	findRows  = `SELECT id, rev, body, sum FROM countersign.rows WHERE place = $1 ORDER BY made DESC`

	// A counter whose checksum is wrong is not counted on: then no row comes back.
	nextNumber = `INSERT INTO countersign.counters AS c (name, label, value, sum) VALUES ($1, $2, 1, ` + sqlCounterSum("$2::bytea", "1::int8") + `)
		ON CONFLICT (name) DO UPDATE SET value = c.value + 1, sum = ` + sqlCounterSum("c.label", "c.value + 1") + `
		WHERE c.label = $2 AND c.sum = ` + sqlCounterSum("c.label", "c.value") + ` RETURNING c.value`

	damagedRows = `SELECT count(*) FROM countersign.rows WHERE sum <> ` + sqlDigest("kind", "id", "key", "int8send(rev)", "body") +
		` OR name <> ` + sqlDigest("kind", "id") + ` OR place <> ` + sqlDigest("kind", "key")
	damagedCounters = `SELECT count(*) FROM countersign.counters WHERE sum <> ` + sqlCounterSum("label", "value") + ` OR name <> ` + sqlDigest("label")
)

func sqlCounterSum(label, value string) string {
	return sqlDigest("''::bytea", label, "''::bytea", "int8send("+value+")", "''::bytea")
}

// Postgres is a Store in the schema countersign of a PostgreSQL database, which any
// number of gateways on any number of machines may share. A call returns when the
// server has written what it did to its disk, and to that of its synchronous
// standbys if it has some. Rows that are created at the same time are committed
// together.
//
// Everything is decided by single statements. [Store.Create] is one INSERT that
// does nothing on a conflict, [Store.Update] one UPDATE on condition of the
// revision, [Store.Next] one upsert. Whatever else happens, such as a lost
// connection, a time-out, a failover or a server in recovery, is an error and no
// answer; a change that it interrupted may have been stored, or be stored yet.
//
// The order of [Store.Find] is that of a sequence: of two rows of which one was
// created before the creation of the other began, that one counts as the older.
// Rows that were created at the same time have an order, which stays, but the
// older one can come to be seen after the newer one.
//
// What a row says is held against its checksum whenever it is read, and every row
// is checked when the store is opened. Not noticed: rows that are deleted, and
// damage to an index; the server's own page checksums (initdb --data-checksums)
// are for that. Whoever may write the tables can write what they like.
//
// A copy restored from a backup, or a standby that was promoted, may lack what was
// spent last, and would let it be spent again. So a store remembers its history
// (the server's system identifier and timeline, the identifiers of database and
// table) and refuses another one, until the address says that nothing is missing.
type Postgres struct {
	pool          *pgxpool.Pool
	creations     *group[Row]
	unsafe        bool // durability is not checked
	acceptHistory string
	history       atomic.Pointer[string] // what every connection has to have
}

var _ Store = (*Postgres)(nil)

// OpenPostgres opens the store in the database at an address, such as
// postgres://gateway@db.example/approvals, and creates it if the database has no
// schema countersign or an empty one. Gateways may do this at the same time. It
// checks every row, and refuses a store that is damaged, that is something else or
// that a newer version made, leaving it as it is. The context is for opening
// only.
//
// The address is a URL as libpq has it, with its environment variables and its
// password file. A server that is neither local nor described by an sslmode has
// to prove its name (sslmode=verify-full). Poolers in front of it have to keep
// sessions. pool_max_conns is the number of connections, 16 if absent. Parameters
// that only this program knows:
//
//   - accept_history=HISTORY adopts the history that an error has named, or with
//     "any" whichever there is: for replication that loses no commit
//   - unsafe_durability=accept takes a server that may forget commits (fsync or
//     full_page_writes off). For tests.
//
// No error has the password in it.
func OpenPostgres(ctx context.Context, address string) (*Postgres, error) {
	s, err := openPostgres(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("opening the store in PostgreSQL: %w", err)
	}
	return s, nil
}

func openPostgres(ctx context.Context, address string) (*Postgres, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s := new(Postgres)
	config, err := s.configure(address)
	if err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.creations = newGroup(s.create)
	return s, nil
}

// configure reads an address. Errors do not repeat it: it may have a password.
func (s *Postgres) configure(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the address is no URL such as postgres://USER@HOST/DATABASE")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters of the address cannot be read")
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("the address has the parameter %s twice", name)
		}
	}
	for _, name := range []string{"password", "sslpassword"} {
		if query.Has(name) {
			return nil, fmt.Errorf("the address has the parameter %s: use PGPASSWORD or a password file", name)
		}
	}
	switch value := query.Get(unsafeParameter); {
	case value == "accept":
		s.unsafe = true
	case query.Has(unsafeParameter):
		return nil, fmt.Errorf("%s is %q, want \"accept\" or nothing", unsafeParameter, value)
	}
	s.acceptHistory = query.Get(historyParameter)
	query.Del(unsafeParameter)
	query.Del(historyParameter)
	password, has := u.User.Password()
	if has {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	if query.Get("sslmode") == "" && !query.Has("ssl") && os.Getenv("PGSSLMODE") == "" && !local(config.ConnConfig) {
		query.Set("sslmode", "verify-full")
		u.RawQuery = query.Encode()
		if config, err = pgxpool.ParseConfig(u.String()); err != nil {
			return nil, err
		}
	}
	if has {
		config.ConnConfig.Password = password
	}
	if !query.Has("pool_max_conns") {
		config.MaxConns = defaultPool
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	maps.Copy(config.ConnConfig.RuntimeParams, session)
	for name, value := range defaults {
		if config.ConnConfig.RuntimeParams[name] == "" {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	config.ConnConfig.OnNotice = noticed
	config.AfterConnect = s.check
	return config, nil
}

// local reports whether no server of an address is reached over a network.
func local(c *pgx.ConnConfig) bool {
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	return !slices.ContainsFunc(hosts, func(host string) bool {
		return !strings.HasPrefix(host, "/") && !strings.HasPrefix(host, "@") && host != "localhost" && !net.ParseIP(host).IsLoopback()
	})
}

// currentHistory names the server with its timeline, which changes when a standby is
// promoted and when a backup is recovered, and the database with the table, which
// change when a dump is restored.
const currentHistory = `(SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
	|| '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '.' || 'countersign.rows'::regclass::oid`

// check refuses a connection to a server that may forget what it has answered.
func (s *Postgres) check(ctx context.Context, c *pgx.Conn) error {
	var version int
	var standby bool
	var commit, fsync, pages string
	err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`).Scan(&version, &standby, &commit, &fsync, &pages)
	switch {
	case err != nil:
		return err
	case version < oldestPostgres*10000:
		return fmt.Errorf("the server has version %d, want %d or newer", version/10000, oldestPostgres)
	case standby:
		return errors.New("the server is a standby, or is recovering")
	case s.unsafe:
	case fsync != "on" || pages != "on":
		return fmt.Errorf("the server may forget commits: fsync is %s and full_page_writes is %s; for tests say %s=accept", fsync, pages, unsafeParameter)
	case commit != "on" && commit != "remote_apply":
		return fmt.Errorf("commits would not be synchronous: synchronous_commit is %s", commit)
	}
	if want := s.history.Load(); want != nil && s.acceptHistory != "any" {
		var have string
		if err := c.QueryRow(ctx, "SELECT "+currentHistory).Scan(&have); err != nil {
			return err
		}
		return sameHistory(*want, have)
	}
	return nil
}

func sameHistory(want, have string) error {
	if want == have {
		return nil
	}
	return fmt.Errorf("the store has the history %s, and was used in %s: a restored backup or a promoted standby may lack what was spent last; if nothing is missing, say %s=%s",
		have, want, historyParameter, have)
}

// prepare makes sure that the database has a sound store of this version. It
// changes nothing before it knows that.
func (s *Postgres) prepare(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// One gateway at a time. Only the waiting is long.
		for _, text := range []string{"SET LOCAL lock_timeout = '1min'", "SET LOCAL statement_timeout = '1min'", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", applicationID)} {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
		return s.migrate(ctx, tx)
	})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		for table, query := range map[string]string{"rows": damagedRows, "counters": damagedCounters} {
			var n int64
			if err := tx.QueryRow(ctx, query).Scan(&n); err != nil {
				return fmt.Errorf("checking the store: %w", err)
			}
			if n > 0 {
				return fmt.Errorf("the store is damaged, restore it from a copy: %d of its %s have another checksum", n, table)
			}
		}
		return nil
	})
}

func (s *Postgres) migrate(ctx context.Context, tx pgx.Tx) error {
	have, err := catalogue(ctx, tx)
	if err != nil {
		return err
	}
	files, err := migrations.ReadDir("migrations") // in the order of their names
	if err != nil {
		return err
	}
	newest := len(files)
	var version int
	var history string
	if len(have) == 0 {
		// IF NOT EXISTS would need the right to make schemas also where there is one.
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'countersign')").Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA countersign"); err != nil {
				return err
			}
		}
	} else {
		if !slices.Contains(have, "relation store rp") {
			return errors.New("the schema countersign is not a Countersign store: it belongs to another application")
		}
		if err := tx.QueryRow(ctx, "SELECT version, history FROM countersign.store").Scan(&version, &history); err != nil {
			return fmt.Errorf("the schema countersign is not a Countersign store: reading its version: %w", err)
		}
	}
	if version > newest {
		return fmt.Errorf("the store has schema %d, this program knows up to %d: use a newer program", version, newest)
	}
	for _, f := range files[version:] {
		text, err := migrations.ReadFile(path.Join("migrations", f.Name()))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, string(text)); err != nil {
			return fmt.Errorf("migrating the store, %s: %w", f.Name(), err)
		}
	}
	if have, err = catalogue(ctx, tx); err != nil {
		return err
	}
	if want := strings.Split(strings.TrimSpace(tables), "\n"); !slices.Equal(have, want) {
		return fmt.Errorf("the schema countersign is not a Countersign store: its tables are not those of schema %d: %s", newest, firstDifference(have, want))
	}
	var now string
	if err := tx.QueryRow(ctx, "SELECT "+currentHistory).Scan(&now); err != nil {
		return err
	}
	if version == 0 || s.acceptHistory == "any" || s.acceptHistory == now {
		history = now
	}
	if err := sameHistory(history, now); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO countersign.store (version, history) VALUES ($1, $2)
		ON CONFLICT (one) DO UPDATE SET version = excluded.version, history = excluded.history WHERE store.version <> excluded.version OR store.history <> excluded.history`, newest, history); err != nil {
		return err
	}
	s.history.Store(&history)
	return nil
}

// firstDifference is a line that one of two catalogues lacks.
func firstDifference(have, want []string) string {
	for _, line := range want {
		if !slices.Contains(have, line) {
			return "no " + line
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			return line
		}
	}
	return "nothing"
}

// tables is the catalogue of a sound store of this version.
//
//go:embed tables.txt
var tables string

// catalogue describes everything in the schema, a line each: what could make a
// table forget, refuse or invent rows must not be there.
func catalogue(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `
WITH schema AS (SELECT oid FROM pg_namespace WHERE nspname = 'countersign'),
	relation AS (SELECT * FROM pg_class WHERE relnamespace = (SELECT oid FROM schema))
SELECT line FROM (
	SELECT 'relation ' || relname || ' ' || relkind::text || relpersistence::text || CASE WHEN relrowsecurity OR relispartition THEN ' altered' ELSE '' END FROM relation
	UNION ALL
	SELECT 'column ' || relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' not null' ELSE '' END
		|| coalesce(' identity ' || nullif(attidentity::text, ''), '') || coalesce(' generated ' || nullif(attgenerated::text, ''), '')
		|| coalesce(' default ' || pg_get_expr(adbin, adrelid), '')
		FROM relation JOIN pg_attribute ON attrelid = relation.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE relkind = 'r' AND attnum > 0 AND NOT attisdropped
	UNION ALL
	SELECT pg_get_indexdef(indexrelid) || CASE WHEN indisvalid AND indisready AND indislive THEN '' ELSE ' invalid' END FROM pg_index JOIN relation ON indexrelid = relation.oid
	UNION ALL
	SELECT 'constraint ' || conrelid::regclass::text || ' ' || pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint
		WHERE connamespace = (SELECT oid FROM schema) AND contype <> 'n'
	UNION ALL
	SELECT 'trigger ' || tgname FROM pg_trigger JOIN relation ON tgrelid = relation.oid
	UNION ALL
	SELECT 'rule ' || rulename FROM pg_rewrite JOIN relation ON ev_class = relation.oid
	UNION ALL
	SELECT 'child of ' || inhparent::regclass::text FROM pg_inherits JOIN relation ON inhparent = relation.oid
	UNION ALL
	SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = (SELECT oid FROM schema)
) AS lines (line) ORDER BY line COLLATE "C"`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *Postgres) ready() error {
	if s.creations == nil {
		return errClosed
	}
	return nil
}

// name is what the tables call a row, and the place of the rows with a key.
func nameOf(kind, of string) []byte { return digest([]byte(kind), []byte(of)) }

// Create implements [Store]. The insertion is the compare-and-set. It waits for
// another one of the same row that has not committed yet, and only that commit
// makes the row exist.
func (s *Postgres) Create(ctx context.Context, r Row) (Row, error) {
	if err := errors.Join(s.ready(), checkNames(r.Kind, r.ID)); err != nil {
		return Row{}, fail("creating", r.Kind, r.ID, err)
	}
	r = copyOf(r)
	r.Rev = 1
	err := s.creations.submit(ctx, r)
	if errors.Is(err, errInCompany) {
		alone := &job[Row]{ctx: ctx, change: r}
		s.create([]*job[Row]{alone})
		err = alone.err
	}
	if err != nil {
		return Row{}, fail("creating", r.Kind, r.ID, err)
	}
	return r, nil
}

// errInCompany: the server has refused a group, so that nothing of it is stored,
// and not everyone in it need be the reason.
var errInCompany = errors.New("the row was refused among others")

// create inserts rows with one statement, which the server commits or not. A row
// that it does not return existed before.
func (s *Postgres) create(jobs []*job[Row]) {
	type named struct {
		*job[Row]
		name []byte
	}
	var group []named
	for _, j := range jobs {
		if j.err = j.ctx.Err(); j.err == nil {
			j.err = ErrExists // unless it is returned
			group = append(group, named{j, nameOf(j.change.Kind, j.change.ID)})
		}
	}
	// In the same order in every gateway, so that no two wait for each other. Of
	// several callers with the same row the first may create it.
	slices.SortStableFunc(group, func(a, b named) int { return bytes.Compare(a.name, b.name) })
	first := slices.CompactFunc(slices.Clone(group), func(a, b named) bool { return bytes.Equal(a.name, b.name) })
	if len(first) == 0 {
		return
	}
	columns := make([][][]byte, 7)
	for _, j := range first {
		r := j.change
		for i, value := range [][]byte{j.name, nameOf(r.Kind, r.Key), []byte(r.Kind), []byte(r.ID), []byte(r.Key), notNull(r.Body), rowSum(r)} {
			columns[i] = append(columns[i], value)
		}
	}
	// One caller alone may give up; of several, none for the others.
	ctx := context.Background()
	if len(jobs) == 1 {
		ctx = jobs[0].ctx
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, err := s.insert(ctx, columns)
	// Not for worse than an error: a server that ends while a standby has not
	// answered yet has committed.
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR" && len(group) > 1 {
		err = errInCompany
	}
	if err != nil {
		for _, j := range group {
			j.err = err
		}
		return
	}
	for _, name := range created {
		i, found := slices.BinarySearchFunc(first, name, func(j named, name []byte) int { return bytes.Compare(j.name, name) })
		if found {
			first[i].err = nil
		}
	}
}

// insert returns the names of the rows that are new, once they are committed.
func (s *Postgres) insert(ctx context.Context, columns [][][]byte) (names [][]byte, err error) {
	args := make([]any, len(columns))
	for i, c := range columns {
		args[i] = c
	}
	err = s.commit(ctx, func(c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, insertRows, args...)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[[]byte]) // reads to the end of the transaction
		return err
	})
	return names, err
}

// commit runs a statement that changes something, in a transaction of its own. It
// returns after the commit: an error may mean that nobody knows whether there was
// one. Whoever cancels a server that waits for its standbys makes it say yes to
// what only it has, with a warning; that is no yes.
func (s *Postgres) commit(ctx context.Context, statement func(c *pgxpool.Conn) error) error {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	data := c.Conn().PgConn().CustomData()
	delete(data, notReplicated)
	if err := statement(c); err != nil {
		return err
	}
	if data[notReplicated] != nil {
		return errors.New("the commit may not have reached a standby: somebody cancelled the wait for it")
	}
	return nil
}

// notReplicated is set among the data of a connection by noticed.
const notReplicated = "countersign: not replicated"

// noticed reads what a server says besides its answers, before it answers. Texts
// are translated; the name of the function that warns is not.
func noticed(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		c.CustomData()[notReplicated] = true
	}
}

// Update implements [Store].
func (s *Postgres) Update(ctx context.Context, r Row) (Row, error) {
	if err := s.ready(); err != nil {
		return Row{}, fail("updating", r.Kind, r.ID, err)
	}
	r = copyOf(r)
	was := r.Rev
	r.Rev++
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var tag pgconn.CommandTag
	err := s.commit(ctx, func(c *pgxpool.Conn) (err error) {
		tag, err = c.Exec(ctx, updateRow, nameOf(r.Kind, r.ID), nameOf(r.Kind, r.Key), []byte(r.Key), r.Rev, notNull(r.Body), rowSum(r), was)
		return err
	})
	if err == nil && tag.RowsAffected() == 0 {
		// Rows are never deleted, so this look-up cannot tell the wrong story.
		if _, err = s.Get(ctx, r.Kind, r.ID); err == nil {
			err = ErrStale
		}
	}
	if err != nil {
		return Row{}, fail("updating", r.Kind, r.ID, err)
	}
	return r, nil
}

// Get implements [Store].
func (s *Postgres) Get(ctx context.Context, kind, id string) (Row, error) {
	if err := s.ready(); err != nil {
		return Row{}, fail("reading", kind, id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := Row{Kind: kind, ID: id}
	var key, sum []byte
	err := s.pool.QueryRow(ctx, selectRow, nameOf(kind, id)).Scan(&key, &r.Rev, &r.Body, &sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = ErrNotFound
	case err == nil:
		r.Key = string(key)
		err = checkSum(r, sum)
	}
	if err != nil {
		return Row{}, fail("reading", kind, id, err)
	}
	return r, nil
}

// Find implements [Store].
func (s *Postgres) Find(ctx context.Context, kind, key string) ([]Row, error) {
	if err := s.ready(); err != nil {
		return nil, fail("finding", kind, key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, findRows, nameOf(kind, key))
	if err != nil {
		return nil, fail("finding", kind, key, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Row, error) {
		r := Row{Kind: kind, Key: key}
		var id, sum []byte
		if err := row.Scan(&id, &r.Rev, &r.Body, &sum); err != nil {
			return r, err
		}
		r.ID = string(id)
		return r, checkSum(r, sum)
	})
	if err != nil {
		return nil, fail("finding", kind, key, err)
	}
	return found, nil
}

// Next implements [Store].
func (s *Postgres) Next(ctx context.Context, counter string) (n int64, err error) {
	if err := s.ready(); err != nil {
		return 0, fail("counting", "counter", counter, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = s.commit(ctx, func(c *pgxpool.Conn) error {
		return c.QueryRow(ctx, nextNumber, digest([]byte(counter)), []byte(counter)).Scan(&n)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = errSum
	}
	if err != nil {
		return 0, fail("counting", "counter", counter, err)
	}
	return n, nil
}

// Close implements [Store]. Calls in progress finish first.
func (s *Postgres) Close() error {
	if s.creations != nil {
		s.creations.close()
		s.pool.Close()
	}
	return nil
}
