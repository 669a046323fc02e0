package rdmap

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// noting records how it is completed.
type noting struct {
	name string
	log  *[]string
}

func (n noting) Complete(err error) { *n.log = append(*n.log, fmt.Sprint(n.name, " ", err)) }

type notingUp struct {
	noting
	d *Conn
}

func (n notingUp) CompleteUpcall() {
	n.Complete(nil)
	(*n.log)[len(*n.log)-1] = fmt.Sprint(n.name, " up ", n.d.upcalls.Load()&1)
}

// TestReadDone: work requests complete in order, the last one by an upcall if it is an UpcallCompleter, has succeeded and
// the connection is in Serve.
func TestReadDone(t *testing.T) {
	for _, r := range []struct {
		due, want string
		serving   bool
	}{
		{"U", "U up 1", true},
		{"U", "U <nil>", false},
		{"p", "p <nil>", true},
		{"pU", "p <nil>,U up 1", true},
		{"Up", "U <nil>,p <nil>", true},
		{"UV", "U <nil>,V up 1", true},
		{"U!", "U broken", true},
		{"UV!", "U <nil>,V broken", true},
	} {
		a, _ := net.Pipe()
		d := Client(a, nil)
		if r.serving {
			d.role.Take(reading.Server)
		}
		var log []string
		for _, k := range r.due {
			n := noting{string(k), &log}
			switch k {
			case '!':
				d.rcv.Due[len(d.rcv.Due)-1].Err = errors.New("broken")
			case 'p':
				d.rcv.Due = append(d.rcv.Due, engine.Completion{Done: n})
			default:
				d.rcv.Due = append(d.rcv.Due, engine.Completion{Done: notingUp{n, d}})
			}
		}
		if err := d.readDone(new(buf.Staging)); err != nil || len(d.rcv.Due) != 0 || d.upcalls.Load()&1 != 0 {
			t.Errorf("%s: %v, %d left, %d", r.due, err, len(d.rcv.Due), d.upcalls.Load())
		}
		if want := strings.Split(r.want, ","); !slices.Equal(log, want) {
			t.Errorf("%s: %q, want %q", r.due, log, want)
		}
	}
}
