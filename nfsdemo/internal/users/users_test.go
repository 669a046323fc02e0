package users_test

import (
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
)

// TestWho: who is a user, and who is nobody.
func TestWho(t *testing.T) {
	u := users.Users{Lookup: func(w users.Who) (server.User, bool) {
		return server.User{UID: uint32(len(w.Name)), GIDs: []uint32{1}}, w.Name != "stranger"
	}}
	u.Set([]string{"STAG.TEST"}, map[string]string{"host/backup@STAG.TEST": "backup", "alice@OTHER": "al", `a\@b@STAG.TEST`: "odd"})
	for principal, uid := range map[string]uint32{
		"alice@STAG.TEST": 5, "root@STAG.TEST": 4, "host/backup@STAG.TEST": 6, "alice@OTHER": 2, `a\@b@STAG.TEST`: 3,
		"stranger@STAG.TEST": 0, "bob@OTHER": 0, "root/admin@STAG.TEST": 0, "nfs/host@STAG.TEST": 0, "host/other@STAG.TEST": 0,
		"alice": 0, "@STAG.TEST": 0, "": 0, "alice@stag.test": 0, "alice@STAG.TEST@STAG.TEST": 0, `root\@STAG.TEST@STAG.TEST`: 0, `alice\/x@STAG.TEST`: 0,
	} {
		got, ok := u.Of(gss.Principal{Mechanism: "krb5", Name: principal})
		if ok != (uid > 0) || ok && got.UID != uid {
			t.Errorf("%q: %+v, %v, want %d", principal, got, ok, uid)
		}
	}
}

// TestKept: the system is asked once in a while, and again when the configuration has changed.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		u := users.Users{Lookup: func(w users.Who) (server.User, bool) {
			asked++
			return server.User{UID: 7, GIDs: []uint32{7}}, w.Name == "alice"
		}}
		u.Set([]string{"R"}, nil)
		ask := func(want int, names ...string) {
			t.Helper()
			for range 3 {
				for _, n := range names {
					u.Of(gss.Principal{Name: n})
				}
			}
			if asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
		}
		ask(2, "alice@R", "bob@R")
		time.Sleep(2 * time.Minute)
		ask(3, "alice@R", "bob@R")
		time.Sleep(10 * time.Minute)
		ask(5, "alice@R", "bob@R")
		u.Set(nil, nil)
		if _, ok := u.Of(gss.Principal{Name: "alice@R"}); ok {
			t.Error("a realm that is gone is believed")
		}
	})
}

// TestAtOnce: one question is asked for all who wait for its answer, and not more than some at a time; who cannot be asked for
// has no groups, until he can.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, asked atomic.Int32
		u := users.Users{Lookup: func(w users.Who) (server.User, bool) {
			most.Store(max(most.Load(), running.Add(1)))
			asked.Add(1)
			time.Sleep(4 * time.Second)
			running.Add(-1)
			return server.User{UID: w.UID, GIDs: []uint32{w.UID}}, true
		}}
		if _, ok := u.Groups(1, false); ok || asked.Load() != 0 {
			t.Error("known before anybody has asked")
		}
		var without atomic.Int32
		for i := range 100 {
			go func() {
				if g, ok := u.Groups(uint32(i/5), true); !ok || len(g) == 0 {
					without.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		if most.Load() != 8 || asked.Load() != 16 || without.Load() != 4*5 {
			t.Errorf("%d at a time, asked %d times, %d without groups", most.Load(), asked.Load(), without.Load())
		}
		for i := range uint32(20) {
			if g, ok := u.Groups(i, true); !ok || len(g) != 1 || g[0] != i {
				t.Errorf("%d is in %v", i, g)
			}
			if _, ok := u.Groups(i, false); !ok {
				t.Errorf("%d is not kept", i)
			}
		}
		for i := range uint32(5000) { // who is not kept is asked for again
			go u.Groups(i+1000, true)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		before := asked.Load()
		u.Groups(1000, true)
		if asked.Load() == before {
			t.Error("kept for ever")
		}
	})
}

// TestGetent: a user whom only the name service knows has his groups, and what getent takes for a number is no name.
func TestGetent(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$1 $2\" in\n'passwd ann'|'passwd 7001') echo 'ann:*:7001:7000:Ann:/home/ann:/bin/sh';;\n" +
		"'initgroups ann') echo 'ann                  1 2 7000 3';;\n'passwd '*[0-9-]*) echo 'root:x:0:0::/root:/bin/sh';;\n*) exit 2;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if !users.Complete() {
		t.Error("getent is not seen")
	}
	var u users.Users
	u.Set([]string{"R"}, nil)
	ann := server.User{UID: 7001, GIDs: []uint32{7000, 1, 2, 3}}
	if got, ok := u.Of(gss.Principal{Name: "ann@R"}); !ok || !reflect.DeepEqual(got, ann) {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := u.ByID(7001); !ok || !reflect.DeepEqual(got, ann) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, name := range []string{"0", "+0", " 00", "-0", "-x1", "bob"} {
		if got, ok := u.Of(gss.Principal{Name: name + "@R"}); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

// TestSystem: this process's user is one, with his groups.
func TestSystem(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	var u users.Users
	u.Set([]string{"R"}, nil)
	got, ok := u.Of(gss.Principal{Name: me.Username + "@R"})
	if !ok || strconv.Itoa(int(got.UID)) != me.Uid || strconv.Itoa(int(got.GIDs[0])) != me.Gid {
		t.Errorf("%+v, %v, want %+v", got, ok, me)
	}
}
