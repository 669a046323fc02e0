package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Case is one line of a report and how it is measured.
type Case struct {
	Result
	// Round measures once: the figure of the baseline, and ours.
	Round func() (base, ours float64, err error)
	Once  bool // the figures do not vary: there is only one round
	// Best: every round is compared with the fastest round of the baseline, whose figure is a
	// time. Round trips of plain TCP have modes (15, 40 or 60 us on the same machine, depending
	// on where the scheduler puts the two processes), and a slow one would flatter us.
	Best bool
}

// ErrNoCase: no case has the text that was asked for in its name.
var ErrNoCase = errors.New("no case has this in its name")

// Pair is the Round of two figures that are measured one after the other.
func Pair(base, ours func() (float64, error)) func() (base, ours float64, err error) {
	return func() (b, o float64, err error) {
		if b, err = base(); err != nil {
			return 0, 0, err
		}
		o, err = ours()
		return b, o, err
	}
}

// Run measures in turn the cases whose names contain only, rounds times each, and returns their
// results. If progress is not nil, it is called before each round of a case with the number of
// rounds done and that of all. Errors: the first one of a Round, or one that wraps [ErrNoCase].
func Run(cases []Case, only string, rounds int, progress func(done, of int)) ([]Result, error) {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !strings.Contains(c.Name, only) })
	if len(cases) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoCase, only)
	}
	results := make([]Result, len(cases))
	for i := range cases {
		results[i] = cases[i].Result
	}
	for round := range rounds {
		for i := range cases {
			if progress != nil {
				progress(round*len(cases)+i, rounds*len(cases))
			}
			if err := cases[i].measure(&results[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", cases[i].Name, err)
			}
		}
	}
	for i := range cases {
		if cases[i].Best {
			results[i].fastest()
		}
	}
	return results, nil
}

// measure adds a round to r.
func (c *Case) measure(r *Result) error {
	if c.Once && len(r.Ours) > 0 {
		return nil
	}
	base, ours, err := c.Round()
	r.Base, r.Ours = append(r.Base, base), append(r.Ours, ours)
	return err
}

// fastest puts the fastest figure of the baseline in place of all of them.
func (r *Result) fastest() {
	least := slices.Min(r.Base)
	for i := range r.Base {
		r.Base[i] = least
	}
}
