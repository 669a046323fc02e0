package principals_test

import (
	"os/user"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/principals"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
)

// TestWho: who is a user, and who is nobody.
func TestWho(t *testing.T) {
	u := principals.Users{Lookup: func(name string) (server.User, bool) {
		return server.User{UID: uint32(len(name)), GIDs: []uint32{1}}, name != "stranger"
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
		u := principals.Users{Lookup: func(name string) (server.User, bool) {
			asked++
			return server.User{UID: 7, GIDs: []uint32{7}}, name == "alice"
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

// TestSystem: this process's user is one, with his groups.
func TestSystem(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	var u principals.Users
	u.Set([]string{"R"}, nil)
	got, ok := u.Of(gss.Principal{Name: me.Username + "@R"})
	if !ok || strconv.Itoa(int(got.UID)) != me.Uid || strconv.Itoa(int(got.GIDs[0])) != me.Gid {
		t.Errorf("%+v, %v, want %+v", got, ok, me)
	}
}
