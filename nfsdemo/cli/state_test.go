package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// Servers under test keep their keys in one place that is not the user's.
func init() { os.Setenv("STATE_DIRECTORY", filepath.Join(os.TempDir(), "nfsdemo-test-state")) }

// one exports a directory to everybody.
func one(path string) []exports.Export {
	return []exports.Export{{Export: server.Export{Path: path, Squash: server.SquashNone}}}
}

// TestHandleKey: the key is made once, and only its owner can read it; one that is damaged is not replaced.
func TestHandleKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := handleKey(dir)
	if err != nil || len(first) != keySize {
		t.Fatal(len(first), err)
	}
	again, err := handleKey(dir)
	if err != nil || !bytes.Equal(again, first) {
		t.Errorf("another key, %v", err)
	}
	name := filepath.Join(dir, "handles.key")
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
	if other, err := handleKey(t.TempDir()); err != nil || bytes.Equal(other, first) {
		t.Errorf("the same key in another directory, %v", err)
	}
	noErr(t, os.WriteFile(name, first[:5], 0o600))
	if _, err := handleKey(dir); err == nil || !strings.Contains(err.Error(), "32 octets") {
		t.Errorf("a damaged key: %v", err)
	}
}

// TestKeepsKey: a directory that nobody has asked for may fail.
func TestKeepsKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	noErr(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("STATE_DIRECTORY", filepath.Join(file, "below"))
	if key, err := (&serviceConfig{}).openKey(); key != nil || err != nil {
		t.Errorf("%x, %v", key, err)
	}
	if _, err := (&serviceConfig{state: filepath.Join(file, "asked")}).openKey(); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Error(err)
	}
}

// TestPlacesHanging: where an export leads is not waited for, if its file system does not answer. The others are checked.
func TestPlacesHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		defer close(answers)
		in := func(dir, place string) bool {
			return inTime(dir, place, func(dir, place string) bool {
				if dir == "/hangs" {
					<-answers
				}
				return dir == "/link" && place == "/there/state"
			})
		}
		cfg := &serviceConfig{state: "/none/state"}
		check(t, cfg.checkPlaces(one("/hangs"), in))
		cfg.state = "/there/state"
		if err := cfg.checkPlaces(append(one("/hangs"), one("/link")...), in); err == nil || !strings.Contains(err.Error(), "inside the export /link") {
			t.Error(err)
		}
	})
}

// TestPlaces: what the server keeps from clients is in no export, not by a link either, and a capture is its owner's.
func TestPlaces(t *testing.T) {
	top := t.TempDir()
	export, link := filepath.Join(top, "export"), filepath.Join(top, "link")
	noErr(t, os.Mkdir(export, 0o755))
	noErr(t, os.Symlink(export, link))
	for _, flags := range [][]string{
		{"--state", filepath.Join(export, "state")},
		{"--state", filepath.Join(link, "new", "state")},
		{"--state", export},
		{"--pcap", filepath.Join(export, "x.pcapng")},
		{"--pcap", filepath.Join(link, "y.pcapng")},
		{"--push-log", filepath.Join(link, "log")},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r := command(ctx, "", append([]string{"serve", "--export", export, "--listen", "127.0.0.1:0"}, flags...)...)
		cancel()
		if r.status != exitUsage || !strings.Contains(r.stderr, flags[0]+" "+flags[1]+" is inside the export "+export) {
			t.Errorf("%v: status %d, %s", flags, r.status, r.stderr)
		}
		if made, err := os.ReadDir(export); err != nil || len(made) > 0 {
			t.Errorf("%v: refused, but it has made %v, %v", flags, made, err)
		}
	}
	t.Setenv("STATE_DIRECTORY", filepath.Join(top, "usual"))
	cfg := &serviceConfig{exports: one(export)}
	if key, err := cfg.openKey(); err != nil || len(key) != keySize || cfg.checkPlaces(one(export), inside) != nil {
		t.Errorf("%d octets, %v", len(key), err)
	}
	if err := cfg.checkPlaces(one(top), inside); err == nil {
		t.Error("the configuration that is read again exports the key that nobody has named")
	}
	name := filepath.Join(top, "old.pcapng")
	noErr(t, os.WriteFile(name, nil, 0o644))
	for _, name := range []string{name, filepath.Join(top, "new.pcapng")} {
		command(t.Context(), "", "--pcap", name, "ls", "nfs://127.0.0.1:1/x") // it fails
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st, err)
		}
	}
}
