package main

import (
	"io"
	"regexp"
	"slices"
	"strings"

	nfsdemo "github.com/stag-rdma/stag/nfsdemo/cli"
)

var (
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}`)
	codeFlag    = regexp.MustCompile(`^\[?(--[a-z][a-z-]*)`)
)

// command is one of our commands with its flags and subcommands, according to its help.
type command struct {
	flags []string // with those of its subcommands
	below map[string]*command
}

// commands returns our two programs, by name.
func commands() map[string]*command {
	return map[string]*command{
		"nfsdemo":     newCommand(nfsdemo.Main, nil),
		"conformance": newCommand(run, nil),
	}
}

// newCommand asks a command for its help.
func newCommand(run func([]string, io.Reader, io.Writer, io.Writer) int, args []string) *command {
	var help strings.Builder
	run(append(slices.Clone(args), "--help"), strings.NewReader(""), &help, io.Discard)
	c := &command{below: make(map[string]*command)}
	for _, m := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
		c.flags = append(c.flags, m[1])
	}
	_, list, _ := strings.Cut(help.String(), "Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
		if m[1] != "help" {
			d := newCommand(run, append(slices.Clone(args), m[1]))
			c.below[m[1]], c.flags = d, append(c.flags, d.flags...)
		}
	}
	return c
}

// has reports whether the words begin with subcommands of c, or with flags, and all flags among them exist.
func (c *command) has(words []string) bool {
	for len(words) > 0 && len(c.below) > 0 && words[0] != "─>" && !strings.HasPrefix(words[0], "-") {
		name, _, _ := strings.Cut(words[0], "|") // "log dump|verify"
		if c.below[name] == nil {
			return false
		}
		c, words = c.below[name], words[1:]
	}
	for _, w := range words {
		if m := codeFlag.FindStringSubmatch(w); m != nil && !slices.Contains(c.flags, m[1]) {
			return false
		}
	}
	return true
}

// runs reports whether a piece of code runs one of our programs and, if so, whether that has its subcommands and flags.
// The name of the program may be left out, as in "serve --listen" or "--listen".
func runs(programs map[string]*command, code string) (ours, right bool) {
	code, _, _ = strings.Cut(strings.TrimPrefix(code, "go run ./"), " | ")
	code, _, _ = strings.Cut(code, "  ") // a remark, or a drawing
	words := strings.Fields(code)
	if len(words) == 0 {
		return false, false
	}
	if c := programs[words[0]]; c != nil {
		return true, c.has(words[1:])
	}
	for _, c := range programs {
		if c.below[words[0]] != nil || strings.HasPrefix(words[0], "--") {
			ours, right = true, right || c.has(words)
		}
	}
	return ours, right
}
