// Command countersign runs the lab: it tries attacks on approval gateways,
// analyses and draws what came of them, and serves a gateway and its provider.
//
// It is the one place where the harness and the gateway meet; everything it does
// is in the packages it calls.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitCode is returned by a command that has said what it had to say and ends
// with this code: 1 for something unexpected, 2 for cannot tell.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// hinted is an error with advice on what to do.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// hint adds advice to an error; nil stays nil.
func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// run executes one command line and returns the exit code of the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if ctx.Value(commandLine{}) == nil { // a command may run others
		ctx = context.WithValue(ctx, commandLine{}, args)
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(stderr, "countersign: error: %s\n", oneLine(err.Error()))
	if h := (hinted{}); errors.As(err, &h) {
		fmt.Fprintf(stderr, "countersign: hint: %s\n", oneLine(h.hint))
	} else {
		fmt.Fprintf(stderr, "countersign: hint: see %s --help\n", cmd.CommandPath())
	}
	return 2
}

// commandLine is the key of what the arguments were, in a command's context.
type commandLine struct{}

// argv is the command line that manifests tell.
func argv(ctx context.Context) []string {
	args, _ := ctx.Value(commandLine{}).([]string)
	return append([]string{"countersign"}, args...)
}

// oneLine keeps a text from another source on one line and harmless to a terminal.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "countersign",
		Short: "Is what executes what the person approved?",
		Long: `Countersign is a lab for approval gateways of agent systems. It tries twelve
families of attack against approval designs (and against parts of them) and
judges from real side effects whether what executed is what a person approved:
once, at that service, by the agent that asked, under authority that still held.

Exit codes: 0 as predicted; 1 a measurement contradicts its prediction;
2 cannot tell (a trial failed), wrong usage, or nothing selected. Where the reader
of a pipe goes away the program ends by SIGPIPE, as others do.`,
		Example: `  countersign run                                  the whole matrix, about a minute
  countersign run --modes M8,M9 --attacks AB1,AB4  a part of it
  countersign run --modes M9-args,M9-refs          the reference design without one check
  countersign analyze latest                       every table of the newest run
  countersign figures latest                       its figures as SVG, PNG and PDF`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          noCommand,
	}
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(
		newRun(),
		newModes(),
		newAttacks(),
		newAnalyze(),
		newRecords(),
		newBaseline(),
		newCheck(),
		newReferee(),
		newExplain(),
		newTeardown(),
		newCrash(),
		newSoak(),
		newFigures(),
		newReport(),
		newPaper(),
		newGateway(),
		newProvider(),
		newAudit(),
		newAgentDojo(),
		newVersion(),
	)
	root.InitDefaultCompletionCmd()
	plainUsage(root)
	return root
}

// newHelp replaces cobra's command, which succeeds for a topic that is none.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return noArguments(cmd, rest)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
