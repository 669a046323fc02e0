package lockd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestConflict: two clients want the same octets.
func TestConflict(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a locks", a.lock(10, 10, false), lockd.Granted)
	expect(t, "a again", a.lock(10, 10, false), lockd.Granted)
	expect(t, "b locks", b.lock(19, 1, false), lockd.Denied)
	expect(t, "b locks after it", b.lock(20, 0, false), lockd.Granted)
	expect(t, "beyond all offsets", b.lock(math.MaxInt64+1, 1, false), lockd.TooBig)
	out := must(b.send(lockd.ProcTest, &lockd.TestArgs{Cookie: []byte("cookie"), Lock: b.part(1, 0, 0)}))(t)
	var res lockd.TestRes
	d := xdr.NewDecoder(out)
	if err := lockd.Parse(&d, &res, b.vers); err != nil || res.Status != lockd.Denied || res.Offset != 10 || res.Len != 10 || res.ID != 1 || !res.Exclusive {
		t.Errorf("TEST: %+v, %v", res, err)
	}
	expect(t, "a unlocks a part", a.unlock(15, 5), lockd.Granted)
	expect(t, "b locks that", b.lock(15, 5, false), lockd.Granted)
	expect(t, "b locks the rest", b.lock(14, 1, false), lockd.Denied)

	a.vers = lockd.Version3 // offsets of 32 bits
	expect(t, "a by version 3", a.lock(15, 1, false), lockd.Denied)
	expect(t, "a unlocks by version 3", a.unlock(0, 0), lockd.Granted)
	expect(t, "b locks the rest", b.lock(0, 0, false), lockd.Granted)

	bad := b.part(1, 0, 0)
	bad.File = []byte("no handle of ours")
	expect(t, "a foreign handle", b.status(lockd.ProcLock, &lockd.LockArgs{Cookie: []byte("cookie"), Lock: bad}), lockd.Stale)
	if _, err := b.raw(lockd.NLMProgram, 2, 1, nil); !isRPCStatus(err) {
		t.Errorf("version 2: %v", err)
	}
	if _, err := b.raw(lockd.NLMProgram, 4, uint32(lockd.ProcLock), []byte{1, 2, 3, 4}); !isRPCStatus(err) {
		t.Errorf("arguments that are too short: %v", err)
	}
	if got := b.status(lockd.ProcShare, &lockd.UnlockArgs{Cookie: []byte("cookie")}); got != lockd.Failed { // the rest does not matter
		t.Errorf("SHARE: %v", got)
	}
}

// TestBlocked: who waits is told by GRANTED, over the transport it uses, and in the form.
func TestBlocked(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(5, 10, true), lockd.Blocked)
	expect(t, "b asks again", b.lock(5, 10, true), lockd.Blocked)
	if n := len(b.granted); n != 0 {
		t.Errorf("%d calls of GRANTED too early", n)
	}
	expect(t, "a unlocks", a.unlock(0, 0), lockd.Granted)
	g := receive(t, "GRANTED", b.granted)
	if g.Lock.ID != 1 || g.Lock.Offset != 5 || g.Lock.Len != 10 || !g.Exclusive || string(g.Lock.File) != string(r.file) || string(g.Lock.Owner) != "owner" {
		t.Errorf("GRANTED %+v", g)
	}
	expect(t, "a", a.lock(5, 1, false), lockd.Denied)

	a.vers = lockd.Version3 // and asynchronously
	args := &lockd.LockArgs{Cookie: []byte("msg"), Block: true, Exclusive: true, Lock: a.part(3, 5, 1)}
	must(a.send(lockd.ProcLockMsg, args))(t)
	if res := receive(t, "LOCK_RES", a.results); res.Status != lockd.Blocked || string(res.Cookie) != "msg" {
		t.Errorf("LOCK_RES %+v", res)
	}
	expect(t, "b unlocks", b.unlock(5, 10), lockd.Granted)
	receive(t, "GRANTED_MSG", a.granted)
	expect(t, "b", b.lock(5, 1, false), lockd.Denied)
	must(a.send(lockd.ProcUnlockMsg, &lockd.UnlockArgs{Cookie: []byte("msg"), Lock: a.part(3, 5, 1)}))(t)
	if res := receive(t, "UNLOCK_RES", a.results); res.Status != lockd.Granted {
		t.Errorf("UNLOCK_RES %+v", res)
	}
	expect(t, "b", b.lock(5, 1, false), lockd.Granted)
}

// TestUDP: as macOS asks, and is called.
func TestUDP(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(b.ip)}}).DialContext(t.Context(), "udp", r.udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	cred := xdr.SysCred{MachineName: b.name}
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 77, RPCVers: 2, Prog: lockd.NLMProgram, Vers: 4, Proc: uint32(lockd.ProcLock), Cred: cred.Auth()})
	msg = lockd.Append(msg, &lockd.LockArgs{Cookie: []byte("u"), Block: true, Exclusive: true, Lock: b.part(1, 0, 0)}, 4)
	must(conn.Write(msg))(t)
	buf := make([]byte, 999)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	d := xdr.NewDecoder(buf[:must(conn.Read(buf))(t)])
	var h xdr.ReplyHeader
	var res lockd.Res
	if err := h.Parse(&d); err != nil || h.Err() != nil || h.XID != 77 {
		t.Fatal(err, h.Err())
	}
	if err := lockd.Parse(&d, &res, 4); err != nil || res.Status != lockd.Blocked {
		t.Errorf("%+v, %v", res, err)
	}
	expect(t, "a", a.unlock(0, 10), lockd.Granted)
	receive(t, "GRANTED over UDP", b.granted)
}

// TestCancel: a client that does not wait any more gets nothing.
func TestCancel(t *testing.T) {
	r := newRig(t)
	a, b, c := r.client("127.0.0.2", false), r.client("127.0.0.3", false), r.client("127.0.0.4", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(0, 10, true), lockd.Blocked)
	expect(t, "c", c.lock(0, 10, true), lockd.Blocked)
	expect(t, "b cancels", b.cancel(0, 10), lockd.Granted)
	expect(t, "b cancels again", b.cancel(0, 10), lockd.Denied)
	expect(t, "a unlocks", a.unlock(0, 10), lockd.Granted)
	receive(t, "GRANTED", c.granted)
	if n := len(b.granted); n != 0 {
		t.Errorf("%d calls of GRANTED after CANCEL", n)
	}
	expect(t, "c unlocks", c.unlock(0, 10), lockd.Granted)
	if held, waits := r.held(); held != 0 || waits != 0 {
		t.Errorf("%d locks and %d waits are left", held, waits)
	}
	// A client that waits no more when GRANTED comes says so.
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	b.say = lockd.Denied
	expect(t, "b", b.lock(0, 10, true), lockd.Blocked)
	expect(t, "a unlocks", a.unlock(0, 10), lockd.Granted)
	receive(t, "GRANTED", b.granted)
	eventually(t, "the lock is free", func() bool { held, _ := r.held(); return held == 0 })
}

// TestDeaf: a client that cannot be called asks again and has the lock; if it does not, the next one has.
func TestDeaf(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", true)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(0, 10, true), lockd.Blocked)
	expect(t, "a unlocks", a.unlock(0, 10), lockd.Granted)
	eventually(t, "nobody holds a lock", func() bool { held, _ := r.held(); return held == 0 })
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(0, 10, true), lockd.Blocked)
	expect(t, "a unlocks", a.unlock(0, 10), lockd.Granted)
	eventually(t, "b asks again and has it", func() bool { return b.lock(0, 10, true) == lockd.Granted })
	expect(t, "a", a.lock(0, 10, false), lockd.Denied)
}

// TestClientRestart: the locks of a client that starts again are free, and those that it takes then stay.
func TestClientRestart(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(0, 10, true), lockd.Blocked)
	b.call(lockd.NSMProgram, 1, lockd.ProcNotify, xdr.Encode(nil, &lockd.Notify{Name: []byte(a.name), State: 3})) // not from there
	expect(t, "b asks again", b.lock(0, 10, true), lockd.Blocked)
	a.name += ".example.org"
	a.started(3)
	receive(t, "GRANTED", b.granted)
	a.name = strings.TrimSuffix(a.name, ".example.org")
	expect(t, "a", a.lock(20, 10, false), lockd.Granted)
	a.started(3) // the same, once more
	expect(t, "b", b.lock(20, 1, false), lockd.Denied)
	a.started(5)
	expect(t, "b", b.lock(20, 1, false), lockd.Granted)
	must(b.raw(lockd.NLMProgram, 4, uint32(lockd.ProcFreeAll), xdr.Encode(nil, &lockd.Notify{Name: []byte(b.name)})))(t)
	if held, waits := r.held(); held != 0 || waits != 0 {
		t.Errorf("%d locks and %d waits are left", held, waits)
	}
}

// TestFree: an administrator sees whose locks are held, and takes those of a client that does not come back, by its address
// or its name: who waited for them gets them.
func TestFree(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "b", b.lock(5, 10, true), lockd.Blocked)
	eventually(t, "b waits", func() bool { _, waits := r.held(); return waits == 1 })
	list, n := r.locks.Locks(10)
	if n != 2 || len(list) != 2 {
		t.Fatalf("%d locks: %+v", n, list)
	}
	for _, h := range list {
		want := lockd.Held{Address: "127.0.0.2", Name: a.name, File: h.File, Lock: h.Lock}
		if h.Waits {
			want.Address, want.Name, want.Waits = "127.0.0.3", b.name, true
		}
		if !reflect.DeepEqual(h, want) || !bytes.Equal(h.File, a.lookup()) || h.Lock.Exclusive != true {
			t.Errorf("%+v, want %+v", h, want)
		}
	}
	if list, n := r.locks.Locks(1); len(list) != 1 || n != 2 {
		t.Errorf("%d of %d", len(list), n)
	}
	if n := r.locks.Free("127.0.0.9"); n != 0 {
		t.Errorf("%d clients at an address of nobody", n)
	}
	if n := r.locks.Free("127.0.0.2"); n != 1 {
		t.Errorf("%d clients", n)
	}
	receive(t, "GRANTED", b.granted)
	if n := r.locks.Free(b.name + ".example.org"); n != 1 {
		t.Errorf("%d clients", n)
	}
	expect(t, "a again", a.lock(0, 20, false), lockd.Granted)
}

// TestServerRestart: clients are told, reclaim what they held, and nobody else gets a lock meanwhile.
func TestServerRestart(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a reclaims what it never had", a.reclaim(0, 10), lockd.DeniedGrace)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	r.stop()
	r.start()
	if got := receive(t, "NOTIFY", a.notified); got != "server" {
		t.Errorf("NOTIFY of %q", got)
	}
	a.connect()
	b.connect()
	expect(t, "b in the grace period", b.lock(0, 10, false), lockd.DeniedGrace)
	expect(t, "b reclaims", b.reclaim(0, 10), lockd.Denied)
	expect(t, "a reclaims", a.reclaim(0, 10), lockd.Granted)
	expect(t, "a locks more", a.lock(20, 10, false), lockd.DeniedGrace)
	r.stop()
	r.cfg.Grace = time.Millisecond // it was told to keep a, which has reclaimed
	r.start()
	a.connect()
	b.connect()
	receive(t, "the second NOTIFY", a.notified)
	eventually(t, "the grace period is over", func() bool { return r.locks.Grace() == 0 })
	expect(t, "a reclaims too late", a.reclaim(0, 10), lockd.DeniedGrace)
	expect(t, "b", b.lock(0, 10, false), lockd.Granted)
	eventually(t, "a is forgotten", func() bool {
		text, err := os.ReadFile(r.cfg.File)
		return err == nil && !strings.Contains(string(text), a.name) && strings.Contains(string(text), b.name)
	})
	var st lockd.StatRes
	d := xdr.NewDecoder(b.call(lockd.NSMProgram, 1, lockd.ProcStat, xdr.AppendString(nil, "x")))
	if err := xdr.Decode(&d, &st).Err(); err != nil || st.State != 7 {
		t.Errorf("the state: %+v, %v", st, err)
	}
}

// lasting is a file system whose locks outlive its servers.
type lasting struct {
	backend.FS
	*lockd.Locker
}

// HoldsLock finds a lock that is in nobody's way but a stranger's.
func (f lasting) HoldsLock(ctx context.Context, h []byte, l *backend.Lock) (bool, error) {
	foreign := *l
	foreign.Owner.Client = "stranger"
	e, ok := errors.AsType[*backend.LockedError](f.TestLock(ctx, h, &foreign))
	return ok && e.Holder.Owner == l.Owner, nil
}

// TestShared: where locks outlive servers, there is no grace period, and what one server has given, another takes back.
func TestShared(t *testing.T) {
	fsys := lasting{mem.New(nil), lockd.NewLocker(lockd.Limits{})}
	r := newRigOn(t, fsys)
	r.cfg.Shared = []backend.Locker{fsys}
	again := func(file string) { // at a server that knows nobody, or those of before
		r.stop()
		r.cfg.File = file
		r.start()
	}
	again(r.cfg.File)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	expect(t, "a reclaims, because its server was away", a.reclaim(0, 10), lockd.Granted)

	again(r.cfg.File)
	a.connect()
	b.connect()
	expect(t, "b finds the lock of a", b.lock(0, 10, false), lockd.Denied)
	expect(t, "b reclaims what it has not held", b.reclaim(20, 10), lockd.Denied)
	expect(t, "b in the grace period", b.lock(20, 10, false), lockd.Granted)

	again(filepath.Join(t.TempDir(), "other"))
	a.connect()
	b.connect()
	expect(t, "a unlocks at a server that does not know it", a.unlock(0, 10), lockd.Granted)
	expect(t, "b", b.lock(0, 10, false), lockd.Granted)

	again(filepath.Join(t.TempDir(), "another"))
	a.connect()
	b.connect()
	b.started(3)
	expect(t, "a, when b has started again", a.lock(0, 30, false), lockd.Granted)
	b.started(3) // the same, once more
	expect(t, "b", b.lock(40, 1, false), lockd.Granted)
	b.started(3)
	expect(t, "a", a.lock(40, 1, false), lockd.Denied)
}

// TestLimits: no client, and no address, takes everything.
func TestLimits(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.cfg.Limits = lockd.Limits{ClientLocks: 20, ClientWaits: 3}
	r.start()
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", true)
	for i := range uint64(20) {
		expect(t, "a", a.lock(10*i, 1, false), lockd.Granted)
	}
	expect(t, "one more lock", a.lock(1000, 1, false), lockd.DeniedNoLocks)
	a.name += "b"
	expect(t, "one more, with another name", a.lock(1000, 1, false), lockd.DeniedNoLocks)
	for i := range uint32(70) {
		args := &lockd.LockArgs{Cookie: []byte("cookie"), Block: true, Exclusive: true, Lock: b.part(i, 0, 1)}
		if st := b.status(lockd.ProcLock, args); st != lockd.Blocked && st != lockd.DeniedNoLocks {
			t.Fatal(st)
		}
	}
	eventually(t, "waits beyond the limit end", func() bool { _, waits := r.held(); return waits == 3 })
	name := b.name
	for i := range 40 {
		b.name = fmt.Sprint(name, i)
		want := lockd.Granted
		if i >= 15 { // with the first name, 16
			want = lockd.DeniedNoLocks
		}
		expect(t, b.name, b.lock(uint64(5000+i), 1, false), want)
	}
	b.name = name + "0"
	expect(t, "one unlocks", b.unlock(0, 0), lockd.Granted)
	b.name = name + "new"
	expect(t, "a new name takes its place", b.lock(9000, 1, false), lockd.Granted)
	b.name = strings.Repeat("x", 300)
	expect(t, "a long name", b.lock(9001, 1, false), lockd.DeniedNoLocks)
}

// mute listens where the server looks for the rpcbind of clients at an address, and never answers. It returns how often it
// was called.
func (r *rig) mute(ip string) *atomic.Int32 {
	r.t.Helper()
	l := must(net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(r.port))))(r.t)
	r.t.Cleanup(func() { _ = l.Close() })
	calls := new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			r.t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return calls
}

// TestNotTold: those who have their lock and cannot be told it are as many as those who wait may be, by whatever names.
func TestNotTold(t *testing.T) {
	r := newRig(t)
	r.mute("127.0.0.2")
	a := r.client("127.0.0.2", true)
	before := runtime.NumGoroutine()
	for i := range 10 {
		a.name = fmt.Sprint("name", i)
		f := uint64(1000 * i)
		expect(t, a.name, a.lock(f, 100, false), lockd.Granted)
		name := a.name
		a.name += "w"
		for k := range uint32(64) {
			args := &lockd.LockArgs{Cookie: []byte("cookie"), Block: true, Lock: a.part(k, f+uint64(k), 1)}
			if st := a.status(lockd.ProcLock, args); st != lockd.Blocked && st != lockd.DeniedNoLocks {
				t.Fatal(st)
			}
		}
		a.name = name
		expect(t, a.name, a.unlock(f, 100), lockd.Granted)
		eventually(t, "they have their locks", func() bool { _, waits := r.held(); return waits == 0 })
	}
	if n := runtime.NumGoroutine() - before; n > 150 {
		t.Errorf("%d goroutines", n)
	}
	if r.locks.Stats().Refused == 0 {
		t.Error("nothing was refused, or it was not counted")
	}
}

// TestMuteClients: clients that do not answer keep one that has answered from nothing.
func TestMuteClients(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	turn := func(off uint64) {
		t.Helper()
		expect(t, "a", a.lock(off, 1, false), lockd.Granted)
		expect(t, "b", b.lock(off, 1, true), lockd.Blocked)
		expect(t, "a", a.unlock(off, 1), lockd.Granted)
		receive(t, "GRANTED", b.granted)
	}
	turn(10000)
	for i := range 10 {
		ip := fmt.Sprint("127.0.1.", 1+i)
		calls := r.mute(ip)
		x := r.client(ip, true)
		f := uint64(1000 * i)
		expect(t, x.name, x.lock(f, 100, false), lockd.Granted)
		for k := range uint32(10) {
			args := &lockd.LockArgs{Cookie: []byte("cookie"), Block: true, Exclusive: true, Lock: x.part(100+k, f+uint64(k), 1)}
			expect(t, x.name, x.status(lockd.ProcLock, args), lockd.Blocked)
		}
		expect(t, x.name, x.unlock(f, 100), lockd.Granted)
		eventually(t, "as many are called as may be", func() bool { return calls.Load() >= 2 })
	}
	eventually(t, "they have their locks", func() bool { _, waits := r.held(); return waits == 0 })
	// If b had to wait for one of them, GRANTED would come when a call has ended, which takes five seconds. So may a turn on a
	// busy machine, but not each of them.
	for i := uint64(0); ; i++ {
		before := r.locks.Stats().Unanswered
		if turn(20000 + i); r.locks.Stats().Unanswered == before {
			return
		}
		if i == 10 {
			t.Fatal("GRANTED comes when one of those who do not answer is given up")
		}
	}
}

// TestCrowd: addresses that take all the names they can keep none from one that has one, also while it comes and goes.
func TestCrowd(t *testing.T) {
	r := newRig(t)
	h := r.client("127.0.0.2", true)
	var crowd sync.WaitGroup
	done := make(chan struct{})
	for k := range 8 {
		var list []*client
		for i := range 20 {
			list = append(list, r.client(fmt.Sprintf("127.0.%d.%d", 2+k, 1+i), true))
		}
		crowd.Go(func() {
			for _, x := range list {
				for i := range 20 {
					l := x.part(1, uint64(1000*k+i), 1)
					l.Caller = []byte(fmt.Sprint(x.name, i))
					if _, err := x.send(lockd.ProcLock, &lockd.LockArgs{Lock: l}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	go func() { crowd.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		expect(t, "one", h.lock(1<<40, 1, false), lockd.Granted)
		expect(t, "one", h.unlock(1<<40, 1), lockd.Granted)
	}
	late := r.client("127.0.0.3", true)
	expect(t, "a newcomer", late.lock(1<<50, 1, false), lockd.Granted)
	if st := r.locks.Stats(); st.Clients > 4096/2+200 {
		t.Errorf("%+v", st)
	}
}

// TestUDPNotLonger: whoever forges the address of a call gets no more octets sent there than he has sent himself.
func TestUDPNotLonger(t *testing.T) {
	r := newRig(t)
	a := r.client("127.0.0.2", true)
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	conn := must(net.Dial("udp", r.udp.LocalAddr().String()))(t)
	defer conn.Close()
	buf := make([]byte, 9999)
	send := func(msg []byte) (int, uint32) {
		t.Helper()
		must(conn.Write(msg))(t)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n := must(conn.Read(buf))(t)
		d := xdr.NewDecoder(buf[:n])
		return n, d.Uint32()
	}
	last := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1 << 31, RPCVers: 2, Prog: lockd.NLMProgram, Vers: 4}) // it has an answer
	xid := uint32(0)
	for _, prog := range []uint32{lockd.NLMProgram, lockd.NSMProgram, 100000, 100003, 100005} {
		for vers := range uint32(6) {
			for proc := range uint32(26) {
				for _, rpcvers := range []uint32{2, 3} {
					args := lockd.Append(nil, &lockd.TestArgs{Cookie: []byte("c"), Lock: a.part(2, 0, 0)}, 4)
					full := append(xdr.AppendCall(nil, &xdr.CallHeader{RPCVers: rpcvers, Prog: prog, Vers: vers, Proc: proc}), args...)
					for _, n := range []int{8, 12, 16, 20, 24, 32, 40, 44, len(full)} {
						xid++
						msg := append(xdr.AppendUint32(nil, xid), full[4:n]...)
						must(conn.Write(msg))(t)
						for {
							got, of := send(last)
							if of == 1<<31 {
								break
							}
							if of == xid && got > len(msg) {
								t.Fatalf("%d octets for %d: program %d, version %d, procedure %d, RPC version %d", got, len(msg), prog, vers, proc, rpcvers)
							}
						}
					}
				}
			}
		}
	}
}

// TestCancelMuteUDP: the end of a wait does not wait for a client that is called over UDP and says nothing.
func TestCancelMuteUDP(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	_ = b.udp.Close()
	p := must(net.ListenPacket("udp", b.udp.LocalAddr().String()))(t)
	defer p.Close()
	conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(b.ip)}}).DialContext(t.Context(), "udp", r.udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cred := xdr.SysCred{MachineName: b.name}
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 77, RPCVers: 2, Prog: lockd.NLMProgram, Vers: 4, Proc: uint32(lockd.ProcLock), Cred: cred.Auth()})
	msg = lockd.Append(msg, &lockd.LockArgs{Block: true, Exclusive: true, Lock: b.part(1, 0, 10)}, 4)
	for range 10 { // a busy machine may take as long as a call without an answer, five seconds, but not each time
		expect(t, "a", a.lock(0, 10, false), lockd.Granted)
		must(conn.Write(msg))(t)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		must(conn.Read(make([]byte, 999)))(t)
		expect(t, "a unlocks", a.unlock(0, 10), lockd.Granted)
		_ = p.SetReadDeadline(time.Now().Add(time.Minute))
		if _, _, err := p.ReadFrom(make([]byte, 999)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		expect(t, "b cancels", b.cancel(0, 10), lockd.Granted)
		if time.Since(begun) < 4*time.Second {
			return
		}
	}
	t.Error("CANCEL waits for the client")
}

// TestForgedAnswer: a client that answers GRANTED for another one takes nothing from it.
func TestForgedAnswer(t *testing.T) {
	r := newRig(t)
	a, b := r.client("127.0.0.2", false), r.client("127.0.0.3", false)
	b.say = silent
	expect(t, "a", a.lock(0, 10, false), lockd.Granted)
	must(b.send(lockd.ProcLockMsg, &lockd.LockArgs{Block: true, Exclusive: true, Lock: b.part(1, 0, 10)}))(t)
	if res := receive(t, "LOCK_RES", b.results); res.Status != lockd.Blocked {
		t.Fatal(res)
	}
	expect(t, "a", a.unlock(0, 10), lockd.Granted)
	got := receive(t, "GRANTED_MSG", b.granted)
	must(a.send(lockd.ProcGrantedRes, &lockd.Res{Cookie: got.Cookie, Status: lockd.Denied}))(t)
	time.Sleep(50 * time.Millisecond) // time to believe it
	if held, _ := r.held(); held != 1 {
		t.Errorf("%d locks are held", held)
	}
	must(b.send(lockd.ProcGrantedRes, &lockd.Res{Cookie: got.Cookie, Status: lockd.Granted}))(t)
	expect(t, "a, once more", a.lock(0, 10, false), lockd.Denied)
}

// TestManyNames: clients come all at once, and the names of as many as there may be are read again.
func TestManyNames(t *testing.T) {
	r := newRig(t)
	a := r.client("127.0.0.2", false)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			l := a.part(1, uint64(i), 1)
			l.Caller = []byte(strings.Repeat("\x01", 250) + strconv.Itoa(i))
			b, err := a.send(lockd.ProcLock, &lockd.LockArgs{Exclusive: true, Lock: l})
			var res lockd.Res
			d := xdr.NewDecoder(b)
			if err != nil || lockd.Parse(&d, &res, a.vers) != nil || res.Status != lockd.Granted {
				t.Errorf("%v, %v", res.Status, err)
			}
			kept, err := os.ReadFile(r.cfg.File)
			if err != nil || !strings.Contains(string(kept), strconv.Quote(string(l.Caller))) {
				t.Errorf("granted, but it would not be told of a crash: %v", err)
			}
		})
	}
	wg.Wait()
	r.stop()
	var text strings.Builder
	text.WriteString("state 1\n")
	for i := range 4096 {
		fmt.Fprintf(&text, "host %q %q\n", fmt.Sprint("127.0.0.", i), strings.Repeat("\x01", 255))
	}
	noErr(t, os.WriteFile(r.cfg.File, []byte(text.String()), 0o600))
	r.start()
}

// TestBadState: a state file that is damaged is not ignored.
func TestBadState(t *testing.T) {
	name := t.TempDir() + "/locks"
	for _, text := range []string{"", "nonsense\n", "state 5\nhost x\n"} {
		noErr(t, os.WriteFile(name, []byte(text), 0o600))
		s, err := lockd.New(&lockd.Config{File: name})
		if err == nil {
			s.Close()
		}
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzServe sends any arguments to any procedure: the server answers, keeps no more than its limits allow, and ends.
func FuzzServe(f *testing.F) {
	h := must(server.New(&server.Config{Exports: []server.Export{{Path: "/e", FS: mem.New(nil)}}}))(f)
	s := must(lockd.New(&lockd.Config{Files: h, RPCBindPort: 1}))(f)
	f.Cleanup(s.Close)
	for _, p := range s.Programs() {
		h.Add(p)
	}
	l := lockd.Lock{Caller: []byte("c"), File: bytes.Repeat([]byte{1}, 20), Owner: []byte("o"), Len: 3}
	f.Add(uint32(lockd.NLMProgram), uint32(4), uint32(lockd.ProcLock), lockd.Append(nil, &lockd.LockArgs{Lock: l}, 4))
	f.Add(uint32(lockd.NLMProgram), uint32(3), uint32(lockd.ProcUnlock), lockd.Append(nil, &lockd.UnlockArgs{Lock: l}, 3))
	f.Add(uint32(lockd.NLMProgram), uint32(4), uint32(lockd.ProcGrantedRes), lockd.Append(nil, &lockd.Res{Cookie: []byte("x")}, 4))
	f.Add(uint32(lockd.NSMProgram), uint32(1), uint32(lockd.ProcNotify), xdr.Encode(nil, &lockd.Notify{Name: []byte("c")}))
	from := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9), Port: 700}
	f.Fuzz(func(t *testing.T, prog, vers, proc uint32, args []byte) {
		if prog != lockd.NSMProgram {
			prog = lockd.NLMProgram
		}
		msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: prog, Vers: vers % 6, Proc: proc % 26})
		out, ok := rpc.ServeMessage(t.Context(), h, from, append(msg, args...), nil)
		var r xdr.ReplyHeader
		d := xdr.NewDecoder(out)
		if !ok || r.Parse(&d) != nil || r.Accept == xdr.SystemErr {
			t.Fatalf("%v, %+v", ok, r)
		}
	})
}
