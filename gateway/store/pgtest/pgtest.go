// Package pgtest gives tests PostgreSQL databases: of a server of their own, or of
// the one that the environment variable COUNTERSIGN_POSTGRES names.
//
// A server of their own is PostgreSQL as the system has installed it, with a fresh
// cluster in a temporary folder that no network reaches. It synchronises its disk
// as it does by default. It ends with the process that started it, also when that
// is killed.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	// Env names the variable with the address of a server whose user may make
	// databases.
	Env = "COUNTERSIGN_POSTGRES"

	// Locked is a role with the password Password; every other one needs none.
	Locked   = "locked"
	Password = "correct-horse-battery"

	account = "postgres" // whom a server runs as when the tests are root, which it refuses to be
)

// own is the server of this process. It lasts as long as its standard input is
// not collected, so it is kept.
var own *Server

// shared returns the address of the server that most tests share.
var shared = sync.OnceValues(func() (_ string, err error) {
	if address := os.Getenv(Env); address != "" {
		return address, nil
	}
	if own, err = newServer(); err != nil {
		return "", err
	}
	return own.Address("postgres"), own.start()
})

// Shared returns the address of the server that most tests share, and starts it.
func Shared() (address string, err error) { return shared() }

var databases atomic.Int64

// Database returns the address of a new empty database, which is gone after the
// test. Without PostgreSQL the test is skipped, or fails if COUNTERSIGN_REQUIRE
// names "postgres"; with -short it is skipped.
func Database(tb testing.TB) string {
	tb.Helper()
	notWhenShort(tb)
	address, err := shared()
	if err != nil {
		missing(tb, err)
	}
	return database(tb, address)
}

// notWhenShort skips a test when only short ones are wanted: a server takes seconds.
func notWhenShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("no PostgreSQL with -short")
	}
}

func missing(tb testing.TB, err error) {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv("COUNTERSIGN_REQUIRE"), ","), "postgres") || !errors.Is(err, errNotInstalled) {
		tb.Fatalf("PostgreSQL is required: %v", err)
	}
	tb.Skipf("PostgreSQL is missing: %v", err)
}

func database(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Host == "" && u.RawQuery == "" {
		tb.Fatalf("%s is no address such as postgres://USER@HOST/DATABASE", Env)
	}
	name := fmt.Sprintf("countersign_test_%d_%d", os.Getpid(), databases.Add(1))
	do(tb, address, "CREATE DATABASE "+name)
	u.Path = "/" + name
	if own != nil { // it goes with its server, and dropping it would take a checkpoint
		return u.String()
	}
	tb.Cleanup(func() {
		// Also when the test's own context is done.
		if err := execute(context.Background(), address, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Logf("a database is left behind: %v", err)
		}
	})
	return u.String()
}

// Do runs statements in the database at an address.
func Do(tb testing.TB, address string, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		do(tb, address, s)
	}
}

func do(tb testing.TB, address, statement string) {
	tb.Helper()
	if err := execute(tb.Context(), address, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func execute(ctx context.Context, address, statement string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// A Server is a cluster of a test's own, which it may stop, kill and start again.
type Server struct {
	Folder  string // of the socket
	bin     string
	data    string
	options []string
	in      io.Closer // the server ends when this does
	cmd     *exec.Cmd
}

// Start makes a server for one test, with options such as "fsync=off".
func Start(tb testing.TB, options ...string) *Server {
	tb.Helper()
	notWhenShort(tb)
	s, err := newServer(options...)
	if err == nil {
		tb.Cleanup(func() { s.end(tb) })
		err = s.start()
	}
	if err != nil {
		missing(tb, err)
	}
	return s
}

// Database returns the address of a new empty database on the server.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("countersign_test_%d", databases.Add(1))
	do(tb, s.Address("postgres"), "CREATE DATABASE "+name)
	return s.Address(name)
}

// Address returns the address of a database.
func (s *Server) Address(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(account), Path: "/" + database, RawQuery: url.Values{"host": {s.Folder}, "port": {port}}.Encode()}).String()
}

const port = "5432" // part of the socket's name; nothing listens on the network

var errNotInstalled = errors.New("no initdb on PATH or in /usr/lib/postgresql: install it (apt-get install postgresql), or name a server with " + Env)

func newServer(options ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "countersign-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{Folder: dir, bin: bin, data: filepath.Join(dir, "data"), options: options}
	if os.Geteuid() == 0 {
		u, err := user.Lookup(account)
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL refuses to run as root: %w", err)
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2, os.Chown(dir, uid, gid)); err != nil {
			return nil, err
		}
	}
	return s, s.initialise()
}

// programs returns the folder of the newest PostgreSQL.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // no error for this pattern
	if len(found) > 0 {
		version := func(p string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p)))) // a folder that is no number comes last
			return n
		}
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}
	p, err := exec.LookPath("initdb")
	if err != nil || runtime.GOOS == "windows" {
		return "", errNotInstalled
	}
	return filepath.Dir(p), nil
}

// command is a shell script run as somebody that PostgreSQL agrees to run as.
func (s *Server) command(script string, args ...string) *exec.Cmd {
	words := append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	if os.Geteuid() == 0 {
		words = append([]string{"runuser", "-u", account, "--"}, words...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = s.Folder
	return cmd
}

func (s *Server) initialise() error {
	out, err := s.command(`
"$1/initdb" --pgdata="$2" --username=`+account+` --auth=trust --no-sync --encoding=UTF8 --locale=C --no-instructions &&
printf 'local all `+Locked+` scram-sha-256\nlocal all all trust\n' >"$2/pg_hba.conf"`, s.bin, s.data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// start runs the server until its standard input ends.
func (s *Server) start() error {
	args := []string{s.bin, s.data}
	for _, o := range append([]string{"listen_addresses=", "unix_socket_directories=" + s.Folder, "port=" + port, "max_connections=200", "shared_buffers=16MB"}, s.options...) {
		args = append(args, "-c", o)
	}
	// pg_ctl waits until the server answers.
	cmd := s.command(`
bin=$1 data=$2; shift 2
"$bin/postgres" -D "$data" "$@" >"$data.log" 2>&1 &
server=$!
until "$bin/pg_isready" -q -h "${data%/data}" -p `+port+`; do
	kill -0 $server 2>/dev/null || { cat "$data.log"; exit 1; }
	sleep 0.05
done
trap '' INT TERM HUP
echo ready
read -r how
kill -QUIT $server
wait $server
[ -n "$how" ] || { cd / && rm -rf "${data%/data}"; }
true`, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	first := make([]byte, 4096)
	n, err := out.Read(first)
	if text := string(first[:n]); err != nil || text != "ready\n" {
		return fmt.Errorf("PostgreSQL does not start: %s %w", text, errors.Join(err, cmd.Wait()))
	}
	s.in, s.cmd = in, cmd
	return nil
}

// Stop ends the server as at a power cut: without a checkpoint, and whatever it
// is doing.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	_, err := io.WriteString(s.in.(io.Writer), "QUIT\n")
	if err := errors.Join(err, s.in.Close(), s.cmd.Wait()); err != nil {
		tb.Logf("PostgreSQL ended: %v", err)
	}
	s.in = nil
}

// Again starts the server after Stop.
func (s *Server) Again(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) end(tb testing.TB) {
	if s.in != nil {
		if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
			tb.Logf("PostgreSQL ended: %v", err)
		}
	}
	if err := os.RemoveAll(s.Folder); err != nil {
		tb.Logf("a folder is left behind: %v", err)
	}
}
