package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func tsharkCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tshark FILE...",
		Short: "Ask tshark what is wrong with a capture",
		Long: `tshark runs Wireshark's tshark to find malformed packets and bad CRCs in pcap and
pcapng files. It gives tshark every MPA frame in one TCP segment, because otherwise
tshark loses its place, and leaves out complaints that are known to be tshark's own
errors.

Exit status: 0 nothing is wrong; 1 a file could not be read, or tshark is not
installed; 2 bad command line; 3 something is wrong.`,
		Example: `  conformance tshark trace.pcap`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s wants at least one file: see %s --help", below(cmd), cmd.CommandPath())
			}
			return nil
		},
		RunE: runTsharkCmd,
	}
}

func runTsharkCmd(cmd *cobra.Command, files []string) error {
	wrong := false
	for _, name := range files {
		r, err := askTshark(cmd.Context(), name)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d FPDUs, CRCs: %d good, %d bad\n", name, r.FPDUs, r.GoodCRCs, r.BadCRCs)
		if err := r.Err(); err != nil {
			wrong = true
			fmt.Fprintln(cmd.OutOrStdout(), err)
		}
	}
	if wrong {
		return &exitError{status: exitStrict}
	}
	return nil
}
