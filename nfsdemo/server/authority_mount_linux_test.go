package server_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"golang.org/x/sys/unix"
)

// The proof again, with Linux's client between the call and the server: conformance/linux/authority.sh runs it
// in a guest, where nfsdemo serves the directories and the kernel mounts them.
var (
	authorityMounts = flag.String("authority.mounts", "", "DIR=MOUNT,...: exports and where Linux has mounted them, for TestAuthorityMount")
	authorityRO     = flag.String("authority.ro", "", "DIR=MOUNT,...: the same, exported read-only")
	authorityQuota  = flag.String("authority.quota", "", "DIR=MOUNT,...: the same on XFS with usrquota")
	authorityRoom   = flag.String("authority.room", "", "DIR=MOUNT,...: the same, exported with no_root_squash, on ext4 with usrquota and reserved blocks")
	authorityDevice = flag.String("authority.device", "", "the block device of -authority.room")
)

// eachMount runs a test for each pair of a directory and its mount.
func eachMount(t *testing.T, pairs string, fn func(t *testing.T, dir, mnt string)) {
	t.Helper()
	if pairs == "" {
		t.Skip("needs mounts of the Linux client: make interop")
	}
	for pair := range strings.SplitSeq(pairs, ",") {
		dir, mnt, _ := strings.Cut(pair, "=")
		t.Run(filepath.Base(mnt), func(t *testing.T) { fn(t, dir, mnt) })
	}
}

// onClient returns who a process has to be for its calls to come from a caller; ok is false for the ids
// 2^32-1, which Linux gives no process.
func onClient(c *server.Cred) (id caller.Identity, ok bool) {
	id = caller.Identity{UID: c.UID, GID: c.GID, Groups: c.GIDs}
	return id, !slices.Contains(append([]uint32{id.UID, id.GID}, id.Groups...), caller.None)
}

// inBetween is a difference that the protocol or Linux's client makes: docs/security.md names them.
//
//   - Where RFC 1813 lists no NFS3ERR_PERM for a procedure, NFS3ERR_ACCES stands for it, if the client has not
//     refused by itself.
//   - It leaves the right to change a directory to the server, and refuses a device for want of CAP_MKNOD before.
//   - Exclusive CREATE carries no mode (RFC 1813 Section 3.3.8), so that it sets the whole of it afterwards, and
//     with it the mask of an ACL that the file has inherited.
func inBetween(op *remoteOp, s *scene, want, got outcome, after, expect string) bool {
	is := func(here, there syscall.Errno) bool {
		return syscall.Errno(want.Errno) == here && syscall.Errno(got.Errno) == there && after == expect
	}
	switch {
	case server.Fit(op.proc, nfs3.ErrPerm) == nfs3.ErrAcces && is(unix.EPERM, unix.EACCES):
	case op.name == "device" && is(unix.EACCES, unix.EPERM):
	case op.name == "create exclusively" && len(s.def) > 0 && want.Errno == 0 && got == want:
	default:
		return false
	}
	return true
}

func TestAuthorityMount(t *testing.T) {
	eachMount(t, *authorityMounts, func(t *testing.T, dir, mnt string) {
		n, differ, named := 0, 0, 0
		for _, who := range callers {
			id, ok := onClient(&who.cred)
			if !ok {
				continue
			}
			here, there := newHelper(t, &who.is), newHelper(t, &id)
			for i := range scenes {
				s := &scenes[i]
				a, b, asBuilt := "", "", ""
				for _, op := range remoteOps {
					if n++; a == "" {
						a, b = fmt.Sprintf("%s-a%d", filepath.Base(mnt), n), fmt.Sprintf("%s-b%d", filepath.Base(mnt), n)
						s.build(t, filepath.Join(dir, a))
						s.build(t, filepath.Join(dir, b))
						asBuilt = picture(t, filepath.Join(dir, b))
					}
					want := here.do(t, callIn(op.name, filepath.Join(dir, b), &who.is))
					got := there.do(t, callIn(op.name, filepath.Join(mnt, a), &who.is))
					after, expect := picture(t, filepath.Join(dir, a)), picture(t, filepath.Join(dir, b))
					switch {
					case got == want && after == expect:
					case inBetween(&op, s, want, got, after, expect):
						named++
					default:
						differ++
						t.Errorf("%s, %s, %s: through the mount %v %q, here %v %q\n%s%s", who.name, s.name, op.name,
							syscall.Errno(got.Errno), got.Text, syscall.Errno(want.Errno), want.Text, after, expect)
					}
					if after != asBuilt || expect != asBuilt || op.name == remoteOps[len(remoteOps)-1].name {
						noErr(t, os.RemoveAll(filepath.Join(dir, a)))
						noErr(t, os.RemoveAll(filepath.Join(dir, b)))
						a = ""
					}
				}
			}
		}
		t.Logf("%d comparisons, %d differences, %d named", n, differ, named)
	})
}

// TestAuthorityMountReadOnly: what a read-only mount refuses a read-only export refuses, and nothing else. The
// client cannot always tell why (it asks by ACCESS, which knows no EROFS).
func TestAuthorityMountReadOnly(t *testing.T) {
	eachMount(t, *authorityRO, func(t *testing.T, dir, mnt string) {
		n, top := 0, filepath.Base(mnt)
		scenes[0].build(t, filepath.Join(dir, top))
		ro := readOnly(t, dir)
		for _, who := range callers {
			id, ok := onClient(&who.cred)
			if !ok {
				continue
			}
			here, there := newHelper(t, &who.is), newHelper(t, &id)
			for _, op := range remoteOps {
				n++
				before := picture(t, dir)
				want := here.do(t, callIn(op.name, filepath.Join(ro, top), &who.is))
				got := there.do(t, callIn(op.name, filepath.Join(mnt, top), &who.is))
				if (got.Errno == 0) != (want.Errno == 0) || got.Text != want.Text {
					t.Errorf("%s, %s: through the mount %v %q, here %v %q", who.name, op.name, syscall.Errno(got.Errno), got.Text, syscall.Errno(want.Errno), want.Text)
				}
				if picture(t, dir) != before {
					t.Errorf("%s, %s has changed something", who.name, op.name)
				}
			}
		}
		t.Logf("%d comparisons", n)
	})
}

// fill writes a file until it is refused, and says how many MiB it got and why no more. O_SYNC, so that the
// client cannot keep the answer to itself.
func fill(c *localCall) (string, error) {
	fd, err := unix.Open(c.D+"/fill", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_SYNC, 0o666)
	if err != nil {
		return "", err
	}
	defer unix.Unlink(c.D + "/fill") //nolint:errcheck // the next one fails
	defer unix.Close(fd)
	block := make([]byte, 1<<20)
	for n := 0; ; {
		got, err := unix.Write(fd, block)
		if n += max(got, 0); err != nil {
			return fmt.Sprint(n>>20, " ", int(err.(syscall.Errno))), nil
		}
	}
}

// setQuota limits the blocks of a user.
func setQuota(t *testing.T, device string, uid uint32, octets uint64) {
	t.Helper()
	var q struct { // struct if_dqblk
		hard, soft, space, inodesHard, inodesSoft, inodes, blockTime, inodeTime uint64
		valid                                                                   uint32
	}
	q.hard, q.valid = octets>>10, 1 // QIF_BLIMITS
	name := must(unix.BytePtrFromString(device))(t)
	const setUser = 0x800008 << 8 // QCMD(Q_SETQUOTA, USRQUOTA)
	if _, _, e := unix.Syscall6(unix.SYS_QUOTACTL, setUser, uintptr(unsafe.Pointer(name)), uintptr(uid), uintptr(unsafe.Pointer(&q)), 0, 0); e != 0 {
		t.Fatal(e)
	}
}

// filled returns how many MiB a user can write, which are as many through the mount as here, and why no more.
func filled(t *testing.T, dir, mnt string, uid uint32) (int, error) {
	t.Helper()
	h := newHelper(t, &caller.Identity{UID: uid, GID: uid})
	var mib, why [2]int
	for i, d := range []string{dir, mnt} {
		o := h.do(t, &localCall{Op: "fill", D: d})
		if _, err := fmt.Sscan(o.Text, &mib[i], &why[i]); err != nil {
			t.Fatal(d, o, err)
		}
		unix.Sync() // what was removed is free again
	}
	t.Logf("uid %d: %d MiB and %v here, %d MiB and %v through the mount", uid, mib[0], syscall.Errno(why[0]), mib[1], syscall.Errno(why[1]))
	if why[0] != why[1] || mib[0]-mib[1] > 1 || mib[1]-mib[0] > 1 {
		t.Error("they differ")
	}
	return mib[1], syscall.Errno(why[1])
}

// TestAuthorityRoom: a user stops at his quota, or where the reserved blocks begin, through a mount as here;
// root does neither.
func TestAuthorityRoom(t *testing.T) {
	eachMount(t, *authorityRoom, func(t *testing.T, dir, mnt string) {
		const quota = 12
		noErr(t, unix.Chmod(dir, 0o777))
		setQuota(t, *authorityDevice, 1000, quota<<20)
		room := make(map[uint32]int)
		for _, c := range []struct {
			uid uint32
			why error
		}{{1000, unix.EDQUOT}, {2000, unix.ENOSPC}, {0, unix.ENOSPC}} {
			mib, why := filled(t, dir, mnt, c.uid)
			if !errors.Is(why, c.why) {
				t.Errorf("uid %d: %v, want %v", c.uid, why, c.why)
			}
			room[c.uid] = mib
		}
		if room[1000] > quota || room[2000] <= quota || room[0] < room[2000]*3/2 {
			t.Errorf("%v: quota and reserve do not count", room)
		}
	})
}

// TestAuthorityQuota: a user stops at his quota also where the file system keeps nothing for root, so that a WRITE
// goes without the uid.
func TestAuthorityQuota(t *testing.T) {
	eachMount(t, *authorityQuota, func(t *testing.T, dir, mnt string) {
		const quota = 12
		noErr(t, unix.Chmod(dir, 0o777))
		setQuota(t, *authorityDevice, 1000, quota<<20)
		if mib, why := filled(t, dir, mnt, 1000); !errors.Is(why, unix.EDQUOT) || mib > quota {
			t.Errorf("%d MiB, %v: the quota does not count", mib, why)
		}
	})
}
