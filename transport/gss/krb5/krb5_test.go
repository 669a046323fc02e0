package krb5_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
)

const realm = "STAG.TEST"

var enctypes = []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192}

// kdc makes tickets for nfs/host without asking anybody.
type kdc struct {
	t     testing.TB
	kt    *keytab.Keytab
	etype int32
}

func newKDC(t testing.TB, etype int32) *kdc {
	k := &kdc{t, keytab.New(), etype}
	for _, name := range []string{"nfs/host", "http/host"} {
		if err := k.kt.AddEntry(name, realm, "secret", time.Now(), 1, etype); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// ticket begins a context of a principal, with a ticket that is good from one time to another.
func (k *kdc) ticket(who []string, service string, from, to time.Duration) gss.Handshake {
	now := time.Now().UTC()
	p := types.PrincipalName{NameType: nametype.KRB_NT_PRINCIPAL, NameString: who}
	s := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: strings.Split(service, "/")}
	t, key, err := messages.NewTicket(p, realm, s, realm, types.NewKrbFlags(), k.kt, k.etype, 1, now, now.Add(from), now.Add(to), now.Add(to))
	if err != nil {
		k.t.Fatal(err)
	}
	return krb5.Initiate(p, realm, t, key, now.Add(to))
}

// meet makes a context at both ends.
func meet(t testing.TB, kt *keytab.Keytab, client gss.Handshake) (ours, theirs gss.Context, err error) {
	t.Helper()
	token, _, err := client.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, theirs, err := krb5.NewKeytab(kt).Accept().Step(token)
	if len(reply) > 0 {
		var said error
		if _, ours, said = client.Step(reply); err == nil {
			err = said
		} else {
			err = errors.Join(err, said)
		}
	}
	return ours, theirs, err
}

// TestContext: both ends have the same context, whatever the encryption type, and no octet of a token can change.
func TestContext(t *testing.T) {
	for _, etype := range enctypes {
		var c, s gss.Context
		var err error
		if etype == etypeID.AES256_CTS_HMAC_SHA384_192 { // the module makes no tickets for it
			key := types.EncryptionKey{KeyType: etype, KeyValue: bytes.Repeat([]byte{9}, 32)}
			c, err = krb5.Secure(key, false, false)
			s, _ = krb5.Secure(key, true, false)
		} else {
			k := newKDC(t, etype)
			c, s, err = meet(t, k.kt, k.ticket([]string{"alice"}, "nfs/host", 0, time.Hour))
		}
		if err != nil {
			t.Fatalf("type %d: %v", etype, err)
		}
		if who := s.Initiator(); who.Name != "alice@STAG.TEST" || who.Mechanism != "krb5" || etype != etypeID.AES256_CTS_HMAC_SHA384_192 && time.Until(s.Expires()).Round(time.Minute) != time.Hour+5*time.Minute {
			t.Errorf("type %d: %+v until %v", etype, who, s.Expires())
		}
		for from, to := range map[gss.Context]gss.Context{c: s, s: c} {
			for n := range 70 {
				msg := bytes.Repeat([]byte{byte(n)}, n)
				mic := from.AppendMIC(nil, msg)
				if len(mic) != from.MICSize() || to.VerifyMIC(msg, mic) != nil || from.VerifyMIC(msg, mic) == nil || to.VerifyMIC(append(msg, 0), mic) == nil {
					t.Fatalf("type %d: the MIC of %d octets", etype, n)
				}
				wrapped := from.AppendWrap([]byte("before"), msg[:n/2], msg[n/2:])[6:]
				if len(wrapped)-n > gss.MaxOverhead/2 {
					t.Errorf("type %d: %d octets wrapped into %d", etype, n, len(wrapped))
				}
				if _, err := from.Unwrap(bytes.Clone(wrapped)); err == nil {
					t.Errorf("type %d: a token is accepted by its sender", etype)
				}
				if got, err := to.Unwrap(bytes.Clone(wrapped)); err != nil || !bytes.Equal(got, msg) {
					t.Fatalf("type %d: %d octets unwrapped: %x, %v", etype, n, got, err)
				}
			}
			mic, wrapped := from.AppendMIC(nil, []byte("message")), from.AppendWrap(nil, []byte("message"))
			for i := range wrapped {
				for _, bad := range [][]byte{wrapped[:i], slices.Concat(wrapped[:i], []byte{wrapped[i] ^ 1}, wrapped[i+1:])} {
					if _, err := to.Unwrap(bytes.Clone(bad)); err == nil && (i < 6 || i > 7) { // a rotation of the other end's choice
						t.Errorf("type %d: unwrapped with another octet %d, or cut there", etype, i)
					}
				}
			}
			for i := range mic {
				for _, bad := range [][]byte{mic[:i], slices.Concat(mic[:i], []byte{mic[i] ^ 1}, mic[i+1:])} {
					if to.VerifyMIC([]byte("message"), bad) == nil {
						t.Errorf("type %d: MIC with another octet %d, or cut there", etype, i)
					}
				}
			}
		}
	}
}

// TestPeersTokens: tokens as other implementations make them, sealed by another module: rotated, with filler, under a key
// that the acceptor has asserted; and those that lie about it.
func TestPeersTokens(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, etype := range enctypes {
		et, err := crypto.GetEtype(etype)
		if err != nil {
			t.Fatal(err)
		}
		size := et.GetKeyByteSize()
		if etype == etypeID.AES256_CTS_HMAC_SHA384_192 {
			size = 32
		}
		key := types.EncryptionKey{KeyType: etype, KeyValue: make([]byte, size)}
		for i := range key.KeyValue {
			key.KeyValue[i] = byte(rnd.Uint32())
		}
		// seal makes the token of an acceptor.
		seal := func(flags byte, msg []byte, filler, says, rotate int, inside func([]byte)) []byte {
			h := append([]byte{5, 4, flags, 0xff}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9)
			binary.BigEndian.PutUint16(h[4:], uint16(says))
			in := bytes.Clone(h)
			if inside != nil {
				inside(in)
			}
			_, b, err := et.EncryptMessage(key.KeyValue, slices.Concat(msg, make([]byte, filler), in), 22)
			if err != nil {
				t.Fatal(err)
			}
			binary.BigEndian.PutUint16(h[6:], uint16(rotate))
			at := len(b) - rotate%len(b)
			return slices.Concat(h, b[at:], b[:at])
		}
		plain, err := krb5.Secure(key, false, false)
		if err != nil {
			t.Fatal(err)
		}
		subkey, _ := krb5.Secure(key, false, true)
		for n := range 50 {
			msg := bytes.Repeat([]byte{7}, n)
			filler, rotate := rnd.IntN(20), rnd.IntN(1000)
			for flags, c := range map[byte]gss.Context{3: plain, 7: subkey} {
				if got, err := c.Unwrap(seal(flags, msg, filler, filler, rotate, nil)); err != nil || !bytes.Equal(got, msg) {
					t.Fatalf("seed %d, type %d: %d octets, filler %d, rotated by %d: %v", seed, etype, n, filler, rotate, err)
				}
			}
		}
		for why, token := range map[string][]byte{
			"filler beyond the token":   seal(3, []byte("four"), 0, 5, 0, nil),
			"the most filler":           seal(3, []byte("four"), 0, 1<<16-1, 0, nil),
			"another header inside":     seal(3, []byte("four"), 0, 0, 0, func(h []byte) { h[15]++ }),
			"a rotation inside":         seal(3, []byte("four"), 0, 0, 0, func(h []byte) { h[7]++ }),
			"not sealed":                seal(1, []byte("four"), 0, 0, 0, nil),
			"of the initiator":          seal(2, []byte("four"), 0, 0, 0, nil),
			"a key that nobody asserts": seal(7, []byte("four"), 0, 0, 0, nil),
			"a header":                  seal(3, nil, 0, 0, 0, nil)[:16],
			"nothing":                   nil,
		} {
			if got, err := plain.Unwrap(token); err == nil {
				t.Errorf("type %d, %s: %x", etype, why, got)
			}
		}
		if _, err := subkey.Unwrap(seal(3, []byte("four"), 0, 0, 0, nil)); err == nil {
			t.Errorf("type %d: a token without the key that the acceptor asserts", etype)
		}
	}
}

// TestRefused: who gets no context, and why.
func TestRefused(t *testing.T) {
	k, other, old := newKDC(t, enctypes[1]), newKDC(t, enctypes[1]), newKDC(t, etypeID.RC4_HMAC)
	if err := other.kt.AddEntry("nfs/elsewhere", realm, "secret", time.Now(), 1, enctypes[1]); err != nil {
		t.Fatal(err)
	}
	forged := newKDC(t, enctypes[1])
	forged.kt = keytab.New()
	if err := forged.kt.AddEntry("nfs/host", realm, "guessed", time.Now(), 1, enctypes[1]); err != nil {
		t.Fatal(err)
	}
	next := newKDC(t, enctypes[1])
	next.kt = keytab.New()
	if err := next.kt.AddEntry("nfs/host", realm, "new secret", time.Now(), 2, enctypes[1]); err != nil {
		t.Fatal(err)
	}
	alice := []string{"alice"}
	for name, c := range map[string]struct {
		client gss.Handshake
		kt     *keytab.Keytab
		why    krb5.Reason
		told   bool // the client too
	}{
		"expired":         {k.ticket(alice, "nfs/host", -time.Hour, -10*time.Minute), k.kt, krb5.Expired, true},
		"not yet good":    {k.ticket(alice, "nfs/host", 10*time.Minute, time.Hour), k.kt, krb5.Clock, true},
		"another service": {k.ticket(alice, "http/host", 0, time.Hour), k.kt, krb5.BadToken, false},
		"another server":  {other.ticket(alice, "nfs/elsewhere", 0, time.Hour), k.kt, krb5.NoKey, true},
		"an old key":      {k.ticket(alice, "nfs/host", 0, time.Hour), next.kt, krb5.NoKey, true},
		"a forged ticket": {forged.ticket(alice, "nfs/host", 0, time.Hour), k.kt, krb5.BadToken, false},
	} {
		_, _, err := meet(t, c.kt, c.client)
		e, ok := errors.AsType[*krb5.Error](err)
		if !ok || e.Reason != c.why {
			t.Errorf("%s: %v", name, err)
		}
		if told := strings.Contains(fmt.Sprint(err), "the server says"); told != c.told {
			t.Errorf("%s: the client is told %v: %v", name, told, err)
		}
	}
	if _, _, err := old.ticket(alice, "nfs/host", 0, time.Hour).Step(nil); err == nil {
		t.Error("a ticket for RC4 is used")
	}
	if _, err := krb5.Secure(types.EncryptionKey{KeyType: enctypes[1], KeyValue: make([]byte, 16)}, true, false); err == nil {
		t.Error("a key of half the size is used")
	}
}

// TestNames: no two principals have one name.
func TestNames(t *testing.T) {
	k := newKDC(t, enctypes[0])
	for want, who := range map[string][]string{
		"alice@STAG.TEST": {"alice"}, "alice/admin@STAG.TEST": {"alice", "admin"}, `alice\/admin@STAG.TEST`: {"alice/admin"}, `root\@STAG.TEST@STAG.TEST`: {"root@STAG.TEST"},
	} {
		if _, s, err := meet(t, k.kt, k.ticket(who, "nfs/host", 0, time.Hour)); err != nil || s.Initiator().Name != want {
			t.Errorf("%q: %v, %v", who, s, err)
		}
	}
}

// TestLoadKeytab: a file that is no keytab, or one for other services, says so.
func TestLoadKeytab(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	marshal := func(kt *keytab.Keytab) []byte {
		b, err := kt.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := marshal(newKDC(t, enctypes[0]).kt)
	k, err := krb5.LoadKeytab(write("good", good))
	if err != nil || !slices.Equal(k.Realms(), []string{realm}) || !slices.Equal(k.Names(), []string{"nfs/host@STAG.TEST", "http/host@STAG.TEST"}) {
		t.Fatal(k, err)
	}
	for name, b := range map[string][]byte{"empty": nil, "half": good[:len(good)/2], "text": []byte("secret"), "rc4": marshal(newKDC(t, etypeID.RC4_HMAC).kt)} {
		if _, err := krb5.LoadKeytab(write(name, b)); err == nil && name != "half" {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := krb5.LoadKeytab(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestCache: without a ticket the error says what to do.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "krb5.conf")
	if err := os.WriteFile(conf, []byte("[libdefaults]\n default_realm = STAG.TEST\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte{5, 4, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KRB5_CONFIG", conf)
	for cache, want := range map[string]string{
		"KCM:0": "set KRB5CCNAME=FILE:", "KEYRING:persistent:0": "set KRB5CCNAME=FILE:", "FILE:" + filepath.Join(dir, "none"): "run kinit", filepath.Join(dir, "none"): "run kinit", broken: "run kinit",
	} {
		t.Setenv("KRB5CCNAME", cache)
		_, err := krb5.FromCache("host")(t.Context())
		if e, ok := errors.AsType[*krb5.Error](err); !ok || e.Reason != krb5.NoCache || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", cache, err)
		}
	}
}

// FuzzAccept: no token makes an acceptor panic, or a context without a ticket.
func FuzzAccept(f *testing.F) {
	k := newKDC(f, enctypes[1])
	good, _, _ := k.ticket([]string{"alice"}, "nfs/host", 0, time.Hour).Step(nil)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(krb5.Frame(0x0100, nil))
	f.Add(krb5.Frame(0x0300, []byte{0x7e, 0}))
	kt := krb5.NewKeytab(newKDC(f, enctypes[2]).kt) // no ticket is for it
	f.Fuzz(func(t *testing.T, token []byte) {
		if _, c, err := kt.Accept().Step(token); c != nil || err == nil {
			t.Fatal(c, err)
		}
	})
}

// FuzzAuthenticator: whoever has a ticket encrypts what he likes, and is nobody else by that.
func FuzzAuthenticator(f *testing.F) {
	k := newKDC(f, enctypes[1])
	now, alice := time.Now().UTC(), types.PrincipalName{NameType: nametype.KRB_NT_PRINCIPAL, NameString: []string{"alice"}}
	server := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"nfs", "host"}}
	ticket, key, err := messages.NewTicket(alice, realm, server, realm, types.NewKrbFlags(), k.kt, k.etype, 1, now, now, now.Add(time.Hour), now.Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	auth, err := types.NewAuthenticator(realm, alice)
	if err != nil {
		f.Fatal(err)
	}
	auth.Cksum = types.Checksum{CksumType: 0x8003, Checksum: make([]byte, 24)}
	plain, err := auth.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add(plain[:len(plain)/2])
	req, err := messages.NewAPReq(ticket, key, auth)
	if err != nil {
		f.Fatal(err)
	}
	const usage = 11 // RFC 4120 Section 7.5.1
	f.Fuzz(func(t *testing.T, plain []byte) {
		if req.EncryptedAuthenticator, err = crypto.GetEncryptedData(plain, key, usage, 0); err != nil {
			t.Fatal(err)
		}
		b, err := req.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, c, err := krb5.NewKeytab(k.kt).Accept().Step(krb5.Frame(0x0100, b)); (c == nil) == (err == nil) || c != nil && c.Initiator().Name != "alice@"+realm {
			t.Fatal(c, err)
		}
	})
}

// FuzzReply: no token makes an initiator panic, or a context without a server.
func FuzzReply(f *testing.F) {
	k := newKDC(f, enctypes[1])
	token, _, _ := k.ticket([]string{"alice"}, "nfs/host", 0, time.Hour).Step(nil)
	reply, _, _ := krb5.NewKeytab(k.kt).Accept().Step(token)
	f.Add(reply)
	f.Add(reply[:40])
	token, _, _ = k.ticket([]string{"alice"}, "nfs/host", -time.Hour, -time.Hour/2).Step(nil)
	reply, _, _ = krb5.NewKeytab(k.kt).Accept().Step(token)
	f.Add(reply)
	f.Fuzz(func(t *testing.T, token []byte) {
		h := k.ticket([]string{"alice"}, "nfs/host", 0, time.Hour)
		if _, _, err := h.Step(nil); err != nil {
			t.Fatal(err)
		}
		if token == nil {
			token = []byte{}
		}
		if _, c, err := h.Step(token); c != nil || err == nil {
			t.Fatal(c, err)
		}
	})
}

// FuzzToken: no octets are a token of a context that did not make them.
func FuzzToken(f *testing.F) {
	for i, etype := range enctypes {
		f.Add(uint8(i), []byte{5, 4, 3, 0xff, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3})
		f.Add(uint8(i), []byte{4, 4, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, byte(etype)})
	}
	f.Fuzz(func(t *testing.T, i uint8, token []byte) {
		etype := enctypes[int(i)%len(enctypes)]
		c, err := krb5.Secure(types.EncryptionKey{KeyType: etype, KeyValue: make([]byte, map[bool]int{true: 16, false: 32}[etype%2 == 1])}, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if c.VerifyMIC(nil, token) == nil {
			t.Fatal("a MIC")
		}
		if _, err := c.Unwrap(token); err == nil {
			t.Fatal("a message")
		}
	})
}

func BenchmarkMIC(b *testing.B) {
	c, err := krb5.Secure(types.EncryptionKey{KeyType: enctypes[1], KeyValue: make([]byte, 32)}, true, false)
	if err != nil {
		b.Fatal(err)
	}
	msg, mic := make([]byte, 200), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		c.AppendMIC(mic, msg)
	}
}

func BenchmarkWrap(b *testing.B) {
	c, err := krb5.Secure(types.EncryptionKey{KeyType: enctypes[1], KeyValue: make([]byte, 32)}, true, false)
	if err != nil {
		b.Fatal(err)
	}
	msg, out := make([]byte, 64<<10), make([]byte, 0, 65<<10)
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		c.AppendWrap(out, msg)
	}
}
