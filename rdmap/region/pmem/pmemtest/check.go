package pmemtest

import (
	"fmt"
	"slices"
	"strings"
)

// Violation reports a crash after which recovery does not find what it should.
type Violation struct {
	Script string
	Moment int    // counted from 1
	Image  string // see Snapshot.Image
	Why    string

	Applied          uint64
	Acked, Recovered []uint64 // sequence numbers, ascending
	Extra            []uint64 // recovered but not acknowledged
	Err              error    // of recovery
}

// Error says what is wrong.
func (v *Violation) Error() string {
	s := fmt.Sprintf("pmemtest: %s: moment %d, crash %s: %s (applied to %d, acked %s, recovered %s, extra %s)",
		v.Script, v.Moment, v.Image, v.Why, v.Applied, spans(v.Acked), spans(v.Recovered), spans(v.Extra))
	if v.Err != nil {
		s += ": " + v.Err.Error()
	}
	return s
}

// Unwrap returns the error of recovery.
func (v *Violation) Unwrap() error { return v.Err }

// spans formats ascending numbers, for example as 1-4,7.
func spans(n []uint64) string {
	var s []string
	for i := 0; i < len(n); {
		j := i + 1
		for j < len(n) && n[j] == n[j-1]+1 {
			j++
		}
		if j == i+1 {
			s = append(s, fmt.Sprint(n[i]))
		} else {
			s = append(s, fmt.Sprintf("%d-%d", n[i], n[j-1]))
		}
		i = j
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, ",")
}

// check returns why a crash at this moment must not leave got, or "" if it may.
func (x *Trial) check(got []Record) string {
	next := uint64(1)
	for i, r := range got {
		if i == 0 {
			next = r.Seq
		}
		if r.Seq != next {
			return fmt.Sprintf("found record %d where %d should be", r.Seq, next)
		}
		next++
		if why := x.checkPayload(r); why != "" {
			return why
		}
	}
	if len(got) > 0 && got[0].Seq > x.applied+1 {
		return fmt.Sprintf("record %d is gone", x.applied+1)
	}
	have := x.applied
	if len(got) > 0 {
		have = max(have, next-1)
	}
	for seq := range x.acked {
		if seq > have {
			return fmt.Sprintf("acknowledged record %d is gone", seq)
		}
	}
	return ""
}

func (x *Trial) checkPayload(r Record) string {
	if p, ok := x.acked[r.Seq]; ok && string(p) != string(r.Payload) {
		return fmt.Sprintf("record %d is not the one that was acknowledged", r.Seq)
	}
	if !slices.ContainsFunc(x.sent[r.Seq], func(p []byte) bool { return string(p) == string(r.Payload) }) {
		return fmt.Sprintf("record %d was never sent, or is gone or torn", r.Seq)
	}
	return ""
}

// violation describes what check found.
func (x *Trial) violation(got []Record) *Violation {
	v := &Violation{Applied: x.applied}
	for seq := range x.acked {
		v.Acked = append(v.Acked, seq)
	}
	slices.Sort(v.Acked)
	for _, r := range got {
		v.Recovered = append(v.Recovered, r.Seq)
		if _, ok := x.acked[r.Seq]; !ok {
			v.Extra = append(v.Extra, r.Seq)
		}
	}
	return v
}
