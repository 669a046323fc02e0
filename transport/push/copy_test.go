package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport/push"
)

// A producer and its copy (of its virtual machine, say) use one session. What one of them is told is in the log, is
// in the log; calls that come again are answered as before, and may bring more.
func TestCopy(t *testing.T) {
	w := start(t, &push.Server{})
	o := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: push.Secret{1}, Instance: key{1}}).Opened
	for i, call := range []struct {
		seq     uint64
		records string
		want    push.Status
	}{
		{1, "one two", push.StatusOK},
		{1, "one two", push.StatusOK},
		{2, "two three", push.StatusOK},
		{1, "one", push.StatusOK},
		{3, "THREE", push.StatusFenced},
		{3, "three four", push.StatusOK},
		{2, "two THREE four", push.StatusFenced},
		{4, "four", push.StatusOK},
		{0, "zero one", push.StatusFenced},
		{4, "longer five", push.StatusFenced},
		{6, "six", push.StatusGap},
		{5, "five", push.StatusOK},
	} {
		a := &appendArgs{Session: o.Session, Seq: call.seq}
		for r := range strings.FieldsSeq(call.records) {
			a.Records = append(a.Records, []byte(r))
		}
		if st := appendRecords(t.Context(), w.ps, a); st != call.want {
			t.Errorf("call %d: %v, want %v", i, st, call.want)
		}
	}
	w.take("log", 1, "one", "two", "three", "four", "five")
}

// The server remembers what a session has appended for as long as its client may ask, and no longer.
func TestCopyLate(t *testing.T) {
	w := start(t, &push.Server{})
	o := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: push.Secret{1}, Instance: key{1}}).Opened
	all := &appendArgs{Session: o.Session, Seq: 1}
	for i := range maxRecords {
		all.Records = append(all.Records, fmt.Append(nil, i))
	}
	more := &appendArgs{Session: o.Session, Seq: maxRecords + 1, Records: [][]byte{[]byte("more")}}
	for i, call := range []struct {
		a    *appendArgs
		want push.Status
	}{
		{all, push.StatusOK},
		{all, push.StatusOK},
		{more, push.StatusOK},
		{more, push.StatusOK},
		{all, push.StatusFenced},
		{&appendArgs{Session: o.Session, Seq: 2, Records: all.Records[1:]}, push.StatusOK},
		{&appendArgs{Session: o.Session, Seq: 1}, push.StatusOK},
	} {
		if st := appendRecords(t.Context(), w.ps, call.a); st != call.want {
			t.Errorf("call %d: %v, want %v", i, st, call.want)
		}
	}
}
