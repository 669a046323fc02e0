package push_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/transport/push"
)

// fencedProducer is a program that owns the log, as OPEN and APPEND know it.
type fencedProducer struct {
	instance key
	resume   bool // it was told of a session
	session  key
	dead     bool // after an answered OPEN of another instance
}

// fenceModel is a server with one log, and two producers with the same secret.
type fenceModel struct {
	t       *testing.T
	r       *rand.Rand
	store   *memStore
	ps      *push.Server
	secret  push.Secret
	p       [2]*fencedProducer
	records []string // acknowledged, by number from 1
	steps   []string
}

func (m *fenceModel) born() *fencedProducer { return &fencedProducer{instance: key(push.NewSecret())} }

func (m *fenceModel) say(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

func (m *fenceModel) wrong(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter %v", fmt.Sprintf(format, args...), m.steps)
}

// open sends OPEN for producer i; told says whether the answer arrives.
func (m *fenceModel) open(i int, told bool) {
	p := m.p[i]
	r := ask(m.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: m.secret, Instance: p.instance, Resume: p.resume})
	m.say("open %d told=%v: %v", i, told, r.Status)
	switch {
	case r.Status == push.StatusFenced && p.resume:
		m.p[i] = m.born() // the program ends, and another one starts
		return
	case r.Status != push.StatusOK:
		m.wrong("OPEN of producer %d: %v", i, r.Status)
	case p.dead:
		m.wrong("producer %d was fenced, and has a session again", i)
	case r.Opened.Answer.NextSeq <= uint64(len(m.records)):
		m.wrong("next is %d after %d acknowledged records", r.Opened.Answer.NextSeq, len(m.records))
	}
	if !told {
		m.p[i] = m.born() // killed before the answer arrived
		return
	}
	p.resume, p.session = true, r.Opened.Session
	if other := m.p[1-i]; other.resume {
		other.dead = true
	}
}

// append sends APPEND for producer i.
func (m *fenceModel) append(i int) {
	p, next := m.p[i], uint64(len(m.records)+1)
	if !p.resume {
		return
	}
	record := fmt.Sprint("of ", i, " number ", next)
	r := appendRecords(m.t.Context(), m.ps, &appendArgs{Session: p.session, Seq: next, Records: [][]byte{[]byte(record)}})
	m.say("append %d: %v", i, r)
	if r != push.StatusOK {
		return
	}
	if p.dead {
		m.wrong("producer %d was fenced, and is acknowledged", i)
	}
	m.records = append(m.records, record)
}

// restart kills the server, and starts another one with what has survived.
func (m *fenceModel) restart() {
	m.say("restart")
	_ = m.ps.Close(m.t.Context())
	m.store = m.store.crashed()
	m.serve()
}

func (m *fenceModel) serve() {
	m.ps = &push.Server{Store: m.store}
	if err := m.ps.Load(); err != nil {
		m.wrong("%v", err)
	}
}

// Two producers of one log that take over from one another, and the server, are killed and started
// again in any order. An instance that another one has fenced is never acknowledged again, and gets no
// session; nothing that was acknowledged is lost.
func TestFenceModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		m := &fenceModel{t: t, r: rand.New(rand.NewPCG(seed, 23)), store: newMemStore()}
		m.say("seed %d", seed)
		m.serve()
		m.p = [2]*fencedProducer{m.born(), m.born()}
		m.secret = push.NewSecret()
		m.open(0, true)
		for range 60 {
			i := m.r.IntN(2)
			switch n := m.r.IntN(10); {
			case n < 2:
				m.open(i, true)
			case n < 3:
				m.open(i, false)
			case n < 7:
				m.append(i)
			case n < 8:
				m.say("kill %d", i)
				m.p[i] = m.born()
			default:
				m.restart()
			}
		}
		m.check()
		_ = m.ps.Close(t.Context())
	}
}

// check reads the log from its start.
func (m *fenceModel) check() {
	m.restart()
	l := m.ps.Log("log")
	var got []string
	for {
		rec, err := l.TryNext()
		if err != nil {
			m.wrong("%v", err)
		}
		if rec == nil {
			break
		}
		got = append(got, string(rec.Payload))
	}
	if !slices.Equal(got, m.records) {
		m.wrong("%d records in the log, %d acknowledged", len(got), len(m.records))
	}
}
