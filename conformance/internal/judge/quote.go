package judge

import (
	_ "embed"
	"strings"
)

//go:embed quotes.txt
var quoteFile string

// quotes holds the lines of the file by rule.
var quotes = parseQuotes(quoteFile)

// Quote returns the words of [Rule.Source] on which the rule rests; ... stands for what is left out. Rules of our own
// formats quote our own documents.
func (r *Rule) Quote() string { return quotes[r.ID] }

func parseQuotes(file string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(file) {
		if id, words, ok := strings.Cut(line, "|"); ok && line[0] != '#' {
			m[strings.TrimSpace(id)] = strings.TrimSpace(words)
		}
	}
	return m
}
