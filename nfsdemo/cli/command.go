package cli

import "github.com/spf13/cobra"

// Command returns the tree of commands, for manual pages and completion. To run a command, use [Main].
func Command() *cobra.Command { return (&app{}).root() }
