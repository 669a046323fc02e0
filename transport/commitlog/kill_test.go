package commitlog_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

var killRounds = flag.Int("kill.rounds", 3, "rounds of TestKill in each mode (make crash: 50)")

// killer has the two processes, and what the producers were told.
type killer struct {
	dir                string
	consumer, producer *exec.Cmd
	out                sync.WaitGroup // reads what the producer prints
	run                int

	mu    sync.Mutex
	acked map[uint64]string // "run k" by sequence number
	bad   error
	news  chan struct{} // one slot: something was acknowledged
}

// TestKill kills producer and consumer with SIGKILL at random moments. All that was
// acknowledged is in the log or was applied, once, whole and in order (ADVERSARY 19). The
// memory is a file whose octets nobody sees before their flush, so that a process that
// dies loses what a machine would.
func TestKill(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		t.Run(mode.String(), func(t *testing.T) {
			seed := rand.Uint64()
			t.Log("seed", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			k := newKiller(t, mode)
			for round := range *killRounds {
				k.await(t)
				time.Sleep(time.Duration(r.IntN(15000)) * time.Microsecond)
				who := r.IntN(4)
				if who != 0 {
					k.kill(k.consumer)
				}
				if who == 0 || who == 3 {
					k.kill(k.producer)
					k.out.Wait()
				}
				if who != 0 {
					if err := k.check(); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					k.startConsumer(t)
				}
				if who == 0 || who == 3 {
					k.startProducer(t)
				}
			}
			k.await(t)
			k.kill(k.consumer)
			k.kill(k.producer)
			k.out.Wait()
			noErr(t, k.check())
			t.Logf("%d acknowledged, %d producers", len(k.acked), k.run)
		})
	}
}

func newKiller(t *testing.T, mode commitlog.Mode) *killer {
	t.Helper()
	k := &killer{dir: t.TempDir(), acked: make(map[uint64]string), news: make(chan struct{}, 1)}
	noErr(t, createFile(filepath.Join(k.dir, "log"), mode, 64<<10))
	t.Cleanup(func() {
		k.kill(k.consumer)
		k.kill(k.producer)
		k.out.Wait()
	})
	k.startConsumer(t)
	k.startProducer(t)
	return k
}

func (k *killer) start(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	exe := must(os.Executable())(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+k.dir, childRun+"="+strconv.Itoa(k.run))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // ends when this process does
		t.Fatal(err)
	}
	return cmd
}

func (k *killer) startConsumer(t *testing.T) {
	t.Helper()
	os.Remove(filepath.Join(k.dir, "addr"))
	k.consumer = k.start(t, "consumer")
	noErr(t, k.consumer.Start())
}

func (k *killer) startProducer(t *testing.T) {
	t.Helper()
	k.run++
	k.producer = k.start(t, "producer")
	out := must(k.producer.StdoutPipe())(t)
	noErr(t, k.producer.Start())
	k.out.Go(func() { k.read(out) })
}

// read notes what a producer says is acknowledged. It may be killed in the middle of a line.
func (k *killer) read(out io.Reader) {
	for s := bufio.NewReader(out); ; {
		line, err := s.ReadString('\n')
		if err != nil {
			return
		}
		seq, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(seq, 10, 64)
		k.mu.Lock()
		if old, twice := k.acked[n]; err != nil || twice {
			k.bad = fmt.Errorf("the producer reports %q, but record %d was acknowledged as %q", line, n, old)
		}
		k.acked[n] = id
		k.mu.Unlock()
		select {
		case k.news <- struct{}{}:
		default:
		}
	}
}

// kill ends a process, if it has not ended.
func (k *killer) kill(c *exec.Cmd) {
	if c != nil && c.ProcessState == nil {
		_ = c.Process.Kill()
		if c == k.producer {
			k.out.Wait() // before Wait, which closes the pipe
		}
		_ = c.Wait()
	}
}

// await returns when something new has been acknowledged.
func (k *killer) await(t *testing.T) {
	t.Helper()
	select {
	case <-k.news:
	default:
	}
	select {
	case <-k.news:
	case <-time.After(20 * time.Second):
		t.Fatal("no more calls are acknowledged")
	}
}

// check compares the log of a consumer that is dead with what was acknowledged.
func (k *killer) check() error {
	have, err := k.applied()
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(k.dir, "log"))
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	info, err := commitlog.Inspect(f, fi.Size(), func(r *commitlog.Record) error {
		id, err := killID(r.Payload)
		if old, ok := have[r.Seq]; err == nil && ok && old != id {
			err = fmt.Errorf("record %d is %s, but was applied as %s", r.Seq, id, old)
		}
		have[r.Seq] = id
		return err
	})
	switch {
	case err != nil:
		return err
	case info.Poison != nil:
		return info.Poison
	}
	for seq := uint64(1); seq < info.NextSeq; seq++ {
		if have[seq] == "" {
			return fmt.Errorf("record %d is neither applied nor in the log (head %d, next %d)", seq, info.HeadSeq, info.NextSeq)
		}
	}
	return k.compare(have)
}

func (k *killer) compare(have map[uint64]string) error {
	seen := make(map[string]uint64)
	for seq, id := range have {
		if other, twice := seen[id]; twice {
			return fmt.Errorf("append %s is in the log as %d and %d", id, seq, other)
		}
		seen[id] = seq
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for seq, id := range k.acked {
		if have[seq] != id {
			return fmt.Errorf("record %d was acknowledged as %q, but is %q", seq, id, have[seq])
		}
	}
	return k.bad
}

// applied reads what the consumers have applied: some of it twice, but never differently.
func (k *killer) applied() (map[uint64]string, error) {
	b, err := os.ReadFile(filepath.Join(k.dir, "applied"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	have := make(map[uint64]string)
	for line := range strings.Lines(string(b)) {
		seq, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("applied says %q", line)
		}
		if old, ok := have[n]; ok && old != id {
			return nil, fmt.Errorf("record %d was applied as %s and as %s", n, old, id)
		}
		have[n] = id
	}
	return have, nil
}
