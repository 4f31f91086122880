package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainUsage has a command and those below it say what is wrong with a command line
// in the words of the program's other errors. Cobra's own are for programmers.
func plainUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	cmd.SuggestionsMinimumDistance = 2
	positional := cmd.Args
	// Cobra makes these commands, with its own words.
	if cmd.Name() == completion || cmd.HasParent() && cmd.Parent().Name() == completion {
		positional = noArguments
		if !cmd.Runnable() {
			cmd.RunE = noCommand
		}
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if positional != nil {
			if err := positional(cmd, args); err != nil {
				return err
			}
		}
		return flagsTogether(cmd)
	}
	for _, c := range cmd.Commands() {
		plainUsage(c)
	}
}

const completion = "completion"

// noCommand is what a command does that only holds others.
func noCommand(*cobra.Command, []string) error { return errors.New("no command is given") }

// noArguments is for commands that are told everything by flags, and for those that only
// hold others.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasAvailableSubCommands():
		return hint(fmt.Errorf("%s takes no arguments, and was given %s", cmd.CommandPath(), quotedAll(args)),
			"what it shall do is said with flags: see %s --help", cmd.CommandPath())
	}
	return hint(fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0]), "%s", meant(cmd, cmd.SuggestionsFor(args[0])))
}

// atMostOne is for commands with one argument that may be left out.
func atMostOne(what, means string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return hint(fmt.Errorf("%s takes one %s, and was given %s", cmd.CommandPath(), what, quotedAll(args)), "%s", means)
	}
}

// atMostOneRun is for commands about a run.
var atMostOneRun = atMostOne("RUN", runArgument)

// atLeastOne is for commands with a list of arguments.
func atLeastOne(what, such string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return hint(fmt.Errorf("%s wants one %s or more, and was given none", cmd.CommandPath(), what), "such as: %s", such)
	}
}

func quotedAll(args []string) string {
	var out []string
	for _, a := range args {
		out = append(out, strconv.Quote(a))
	}
	return strings.Join(out, " ")
}

func meant(cmd *cobra.Command, near []string) string {
	if len(near) == 0 {
		return fmt.Sprintf("see %s --help", cmd.CommandPath())
	}
	return fmt.Sprintf("did you mean %s? See %s --help", strings.Join(near, " or "), cmd.CommandPath())
}

// flagError says what is wrong with one flag.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		without *pflag.ValueRequiredError
		value   *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("%s has no flag -%s", cmd.CommandPath(), unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		return hint(fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name), "%s", meant(cmd, nearFlags(cmd, name)))
	case errors.As(err, &without):
		return fmt.Errorf("--%s wants a value, and was given none", without.GetFlag().Name)
	case errors.As(err, &value):
		return fmt.Errorf("--%s is %q, want %s", value.GetFlag().Name, value.GetValue(), wanted(value))
	case errors.As(err, &syntax):
		return fmt.Errorf("%q is no flag", syntax.GetSpecifiedFlag())
	}
	return err
}

// nearFlags lists the flags of a command that a name may be meant for. Cobra measures
// the distance for commands only, so the flags pose as such.
func nearFlags(cmd *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := names.SuggestionsFor(name)
	for i := range near {
		near[i] = "--" + near[i]
	}
	return near
}

func wanted(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number from 0 to 2^64-1"
	case "duration":
		return "a time such as 30s or 5m"
	case "bool":
		return "true or false"
	}
	return fmt.Sprintf("a %s: %v", e.GetFlag().Value.Type(), e.Unwrap())
}

// The annotations in which cobra keeps groups of flags of which one at most may be set,
// and of which one has to be.
const (
	exclusiveAnnotation   = "cobra_annotation_mutually_exclusive"
	oneRequiredAnnotation = "cobra_annotation_one_required"
)

// flagsTogether reports flags that are missing and flags that exclude one another.
func flagsTogether(cmd *cobra.Command) error {
	var missing []string
	groups, wanted := map[string][]string{}, map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true") && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
		for _, group := range f.Annotations[exclusiveAnnotation] {
			if f.Changed {
				groups[group] = append(groups[group], "--"+f.Name)
			}
		}
		for _, group := range f.Annotations[oneRequiredAnnotation] {
			wanted[group] = wanted[group] || f.Changed
		}
	})
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		if !wanted[group] {
			missing = append(missing, "--"+strings.ReplaceAll(group, " ", " or --"))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s wants %s", cmd.CommandPath(), strings.Join(missing, " and "))
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if set := groups[group]; len(set) > 1 {
			return fmt.Errorf("%s exclude one another: choose one", strings.Join(set, " and "))
		}
	}
	return nil
}
