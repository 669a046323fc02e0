package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

var (
	killRounds = flag.Int("kill.rounds", 2, "rounds of TestKill (make crash: 100)")
	killSeed   = flag.Uint64("kill.seed", 0, "seed; 0: random")
)

const clients = 2

// killer has the processes.
type killer struct {
	*rand.Rand
	t      *testing.T
	dir    string
	role   string // of the server
	kept   string // not empty: clients keep their replies
	server *child
	client [clients]*child
	life   [clients]int
}

// child is a process.
type child struct {
	*exec.Cmd
	over   chan struct{} // closed when it has ended
	killed bool
}

func (c *child) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// end kills a process.
func (c *child) end() {
	if c != nil {
		c.killed = true
		_ = c.Process.Kill()
		<-c.over
	}
}

// TestKill kills the server and its clients with SIGKILL at random moments of a mixed load,
// and starts them again. What clients were told has happened, once; only a call that was on its way when the server
// was killed may have run twice (ADVERSARY 21).
func TestKill(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Log("seed", seed)
	newKiller(t, seed, "server").run()
}

// TestKillReplies is TestKill with clients that have their replies in logs of their own:
// the answers from before they were killed are the same afterwards.
func TestKillReplies(t *testing.T) {
	newKiller(t, rand.Uint64(), "keeper").run()
}

func (k *killer) run() {
	t := k.t
	for round := range *killRounds {
		k.await()
		time.Sleep(time.Duration(k.IntN(200000)) * time.Microsecond)

		who := k.IntN(12) // 0: a client alone; 1: both; 2, 3: a client and the server; else the server
		c := k.IntN(clients)
		if who <= 3 {
			k.client[c].end()
		}
		if who == 1 {
			k.client[1-c].end()
		}
		if who >= 2 {
			if _, err := k.crash(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		for i := range clients {
			// One may stay away for a while: what the other does must not cost it its replies.
			if k.client[i].ended() && (k.client[1-i].ended() || k.IntN(3) == 0) {
				k.startClient(i)
			}
		}
	}
	k.await()
	said, err := k.crash()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(said)
}

// TestKillClients kills the clients alone: the cache of replies that every server has suffices.
func TestKillClients(t *testing.T) {
	k := newKiller(t, 0, "server")
	for round := range *killRounds {
		k.await()
		for i := range clients {
			k.client[i].end()
		}
		if err := k.settled(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for i := range clients {
			k.startClient(i)
		}
	}
}

// settled checks the files after the server has finished its last calls.
func (k *killer) settled() (err error) {
	for until := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err = checkDir(k.dir); err == nil || time.Now().After(until) {
			return err
		}
	}
}

func newKiller(t *testing.T, seed uint64, role string) *killer {
	t.Helper()
	dir := t.TempDir()
	k := &killer{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, dir: dir, role: role}
	if role == "keeper" {
		k.kept = "yes"
	}
	for _, d := range []string{"lists", "export", "export/" + Shared} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		k.server.end()
		for _, c := range k.client {
			c.end()
		}
	})
	k.startServer()
	k.publish()
	for i := range clients {
		k.startClient(i)
	}
	return k
}

func (k *killer) start(env ...string) *child {
	k.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), append(env, childDir+"="+k.dir)...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // ends when this process does
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	c := &child{Cmd: cmd, over: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(c.over)
	}()
	return c
}

// launchServer starts the server, and returns the file that is there when it is ready.
func (k *killer) launchServer() string {
	k.t.Helper()
	port := filepath.Join(k.dir, "port")
	os.Remove(port)
	k.server = k.start(childRole+"="+k.role, childServe+"=--squash none --export "+filepath.Join(k.dir, "export")+
		" --state "+filepath.Join(k.dir, "state")+" --listen 127.0.0.1:0 --tcp 127.0.0.1:0 --mount-listen= --port-file "+port)
	return port
}

// startServer returns when the server is ready.
func (k *killer) startServer() {
	k.t.Helper()
	port := k.launchServer()
	for range 12000 { // a minute
		if _, err := os.Stat(port); err == nil {
			return
		}
		if k.server.ended() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	k.t.Fatal("the server does not start")
}

// publish tells the clients where the server is.
func (k *killer) publish() {
	k.t.Helper()
	if err := os.Rename(filepath.Join(k.dir, "port"), filepath.Join(k.dir, "addr")); err != nil {
		k.t.Fatal(err)
	}
}

func (k *killer) startClient(i int) {
	k.life[i]++
	k.client[i] = k.start(childRole+"=client", childClient+"="+strconv.Itoa(i+1), childLife+"="+strconv.Itoa(k.life[i]), childKept+"="+k.kept)
}

// crash kills the server, starts it again and checks what is there, before any client may
// say another word.
func (k *killer) crash() (string, error) {
	os.Remove(filepath.Join(k.dir, "addr"))
	k.server.end()
	all, err := loadLists(k.dir)
	if err != nil {
		return "", err
	}
	for k.IntN(4) == 0 { // it is killed while it recovers, too
		k.launchServer()
		time.Sleep(time.Duration(k.IntN(60000)) * time.Microsecond)
		k.server.end()
	}
	k.startServer()
	said, err := checkTree(all, filepath.Join(k.dir, "export"))
	if err == nil {
		k.publish()
	}
	return said, err
}

// size is how much is on the lists.
func (k *killer) size() (n int64) {
	names, _ := filepath.Glob(filepath.Join(k.dir, "lists", "*"))
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			n += fi.Size()
		}
	}
	return n
}

// await returns when something new has been acknowledged.
func (k *killer) await() {
	k.t.Helper()
	before := k.size()
	for range 12000 { // a minute
		if k.size() > before+8000 {
			return
		}
		for i, c := range k.client {
			if c.ended() && !c.killed {
				k.t.Fatalf("client %d has ended", i+1)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	k.t.Fatal("no more calls are acknowledged")
}
