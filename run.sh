#!/usr/bin/env bash
# Builds and runs the lab. ./run.sh help says what it can do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Tools that are no dependency of the module: what is installed where PATH has
# none.
STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0

usage() {
	cat <<'TEXT'
./run.sh                  build, run the whole matrix, print the table, draw the figures, write the report
./run.sh test [ARG…]      formatting, vet, staticcheck, module files, known vulnerabilities,
                          then every test with the race detector (ARG: for go test);
                          installs PostgreSQL and Chromium if it may, and starts them for the tests
./run.sh bench [REGEXP]   every benchmark, or those whose name matches
./run.sh fuzz [SECONDS]   every fuzz target in turn, 30 seconds each unless told otherwise
./run.sh mutants [REGEXP] the gate without one of its decisions, one at a time (REGEXP: of their ids);
                          fails if nothing notices. All of them take an hour; --sample a minute
./run.sh crash [ARG…]     kill a gateway at every step of an approved call, over SQLite and PostgreSQL,
                          and count effects (ARG: for countersign crash)
./run.sh soak [ARG…]      take 100,000 approvals through served gateways over SQLite, and over PostgreSQL
                          where there is one, with replays, faults and kills (ARG: for countersign
                          soak, such as --approvals 1000); fails if an effect is not the one approved
./run.sh paper [ARG…]     every run that this machine can make, with all tables and figures, compared with
                          results/reference (ARG: for countersign paper); ten minutes
./run.sh help             this text

Everything that is built or measured stays below this folder: bin/, results/runs/,
figures/out/. The exit code of ./run.sh is that of the matrix, held also
against results/reference/matrix: 0 as predicted and nothing worse than
there, 1 a measurement contradicts its prediction or is worse, 2 cannot tell.
TEXT
}

say() { printf '== %s\n' "$*"; }
die() {
	printf 'run.sh: error: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf 'run.sh: hint: %s\n' "$2" >&2
	exit 2
}

# need_go wants the Go version of go.mod or newer.
need_go() {
	local want have
	want=$(awk '$1 == "go" { print $2; exit }' go.mod)
	command -v go >/dev/null || die "go is not installed (this needs $want or newer)" \
		"get it from https://go.dev/dl/ and put its bin folder on PATH"
	# Outside a module, so that no toolchain is fetched just to be asked its version.
	have=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
	have=${have#go}
	have=${have%% *}
	if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ] &&
		[ "$(go env GOTOOLCHAIN)" = local ]; then
		die "go is $have, this needs $want or newer" "get it from https://go.dev/dl/, or let go fetch it: go env -w GOTOOLCHAIN=auto"
	fi
}

# has_postgres says that there is a server to use, or one to start.
has_postgres() {
	[ -n "${COUNTERSIGN_POSTGRES:-}" ] || command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# need_package installs what some tests start, where this is root's to do, and otherwise
# says how. They skip themselves without it.
need_package() { # NAME PACKAGE HOW
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing $1"
		if apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$2"; then
			return 0
		fi
	fi
	echo "$1 is not installed, so its tests are skipped: apt-get install $2 (or $3)"
}

need_postgres() {
	has_postgres || need_package PostgreSQL postgresql "brew install postgresql, or COUNTERSIGN_POSTGRES=postgres://USER@HOST/postgres"
}

# has_chromium says that there is a browser for the tests of the report.
has_chromium() {
	command -v chromium || command -v chromium-browser || command -v google-chrome || command -v chrome
} >/dev/null

need_chromium() {
	has_chromium || need_package Chromium chromium "brew install --cask chromium"
}

build() {
	say "building bin/countersign (the first time takes a minute or two)"
	mkdir -p bin
	# With the commit, which the manifest of a run names.
	go build -buildvcs=auto -o bin/countersign ./cmd/countersign
}

matrix() {
	need_go
	build
	say "running the matrix"
	local code=0 run
	# Named here, so that the figures are of this run and not of another one that
	# ends at the same time.
	run=results/runs/$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
	bin/countersign run --out "$run" || code=$?
	[ -d "$run" ] || exit "$code" # it has said why
	say "comparing with results/reference/matrix"
	bin/countersign check "$run" --baseline results/reference/matrix || code=$((code ? code : $?))
	say "drawing the figures"
	bin/countersign figures "$run"
	say "writing the report"
	bin/countersign report "$run"
	say "the run is in $run; bin/countersign analyze $run prints every table"
	exit "$code"
}

# tool prints where a tool is, and installs the pinned version below bin/ where
# there is none.
tool() {
	local name=${1##*/}
	name=${name%@*}
	command -v "$name" && return
	[ -x "bin/$name" ] || GOBIN="$PWD/bin" go install "$1" >/dev/null 2>&1 || return
	printf '%s\n' "bin/$name"
}

checks() {
	local path out
	say "gofmt"
	out=$(gofmt -l .)
	[ -z "$out" ] || die "not formatted: $(tr '\n' ' ' <<<"$out")" "gofmt -w ."
	say "go vet"
	go vet ./...
	say "staticcheck"
	if path=$(tool "$STATICCHECK"); then
		"$path" ./...
	elif [ -n "${CI:-}" ]; then
		die "staticcheck cannot be installed" "go install $STATICCHECK"
	else
		echo "staticcheck: not run (it cannot be installed: go install $STATICCHECK)"
	fi
	say "go mod tidy"
	go mod tidy -diff || die "go.mod or go.sum is not tidy, or a module cannot be fetched" "go mod tidy"
	say "govulncheck"
	vulnerabilities
}

# vulnerabilities fails for a known vulnerability that the code reaches, and not
# for want of a network.
vulnerabilities() {
	local path out code=0
	if ! path=$(tool "$GOVULNCHECK"); then
		echo "govulncheck: not run (it cannot be installed)"
		return
	fi
	out=$("$path" ./... 2>&1) || code=$?
	case $code in
	0) echo "govulncheck: nothing known" ;;
	3) # vulnerabilities were found
		printf '%s\n' "$out"
		exit 1
		;;
	*)
		if grep -qE 'fetching vulnerabilities|vuln\.go\.dev' <<<"$out"; then
			echo "govulncheck: not run (database unreachable)"
		else
			printf '%s\n' "$out"
			exit 1
		fi
		;;
	esac
}

test_all() {
	need_go
	need_postgres
	need_chromium
	checks
	say "tests, with the race detector"
	if [ $# -eq 0 ] || [[ $* != *./* ]]; then
		set -- "$@" ./...
	fi
	go test -race -timeout 20m "$@"
}

bench() {
	need_go
	need_postgres
	say "benchmarks"
	go test -run '^$' -bench "${1:-.}" -benchmem ./...
}

fuzz() {
	need_go
	local seconds=${1:-30} list package target found=0
	[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "fuzz: \"$seconds\" is no number of seconds"
	list=$(go list ./...)
	for package in $list; do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			found=$((found + 1))
			say "$package $target, $seconds s"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" "$package"
		done
	done
	[ "$found" -gt 0 ] || die "fuzz: there is no fuzz target"
	say "$found fuzz targets found nothing"
}

mutants() {
	need_go
	say "mutants of the gate"
	[ "${1:-}" != --sample ] || set -- -sample gateway/mutants/sample.txt
	local code=0
	mkdir -p bin
	go build -o bin/mutants ./gateway/mutants
	bin/mutants "$@" || code=$?
	say "mutants took $SECONDS s"
	exit "$code"
}

paper() {
	need_go
	build
	say "everything that is published"
	bin/countersign paper "$@"
}

# with_postgres runs a command with the address of a PostgreSQL server in
# COUNTERSIGN_POSTGRES, of one that ends with it unless there is one to use.
with_postgres() {
	need_postgres
	mkdir -p bin
	go build -o bin/pgserve ./gateway/store/pgtest/serve
	coproc PG { bin/pgserve; }
	local code=0 address
	if read -r address <&"${PG[0]}"; then
		COUNTERSIGN_POSTGRES=$address "$@" || code=$?
	else
		die "PostgreSQL does not start" "apt-get install postgresql, or set COUNTERSIGN_POSTGRES"
	fi
	exec {PG[1]}>&-
	wait "$PG_PID" 2>/dev/null || true
	return "$code"
}

crash_all() {
	bin/countersign crash --store "sqlite,$COUNTERSIGN_POSTGRES" "$@"
}

crash() {
	need_go
	say "crashes of the gateway"
	mkdir -p bin
	go build -o bin/countersign ./cmd/countersign
	with_postgres crash_all "$@"
}

soak_all() {
	bin/countersign soak --approvals 100000 --workers 16 --restarts 20 --store "sqlite${COUNTERSIGN_POSTGRES:+,$COUNTERSIGN_POSTGRES}" "$@"
}

soak() {
	need_go
	say "soak of the gateway"
	mkdir -p bin
	go build -o bin/countersign ./cmd/countersign
	need_postgres
	if has_postgres; then
		with_postgres soak_all "$@"
	else
		soak_all "$@"
	fi
}

command=${1:-matrix}
[ $# -eq 0 ] || shift
case $command in
matrix | bench | fuzz | mutants | crash | soak | paper) "$command" "$@" ;;
test) test_all "$@" ;;
help | -h | --help) usage ;;
*)
	usage >&2
	die "there is no command \"$command\""
	;;
esac
