package krb5

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	gofork "github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/transport/gss"
)

// Reason says what is wrong.
type Reason uint8

// Reasons.
const (
	BadToken     Reason = iota // the peer sent what is no token, or one for somebody else
	Clock                      // the clocks of the two ends differ too much
	Expired                    // the ticket has ended
	NoKey                      // the keytab has no such entry
	WrongEnctype               // the encryption type is not one of RFC 3962 or 8009, or the keytab has no key of it
	UnknownName                // the KDC, or DNS, does not know a name
	NoCache                    // there is no ticket to ask the KDC with
	NoKDC                      // the KDC does not answer, or refuses
)

var reasons = [...]struct{ what, fix string }{
	BadToken:     {"not a token for this server", "is it the server that the name says?"},
	Clock:        {"the clocks of client and server differ by more than 5 minutes", "set both by NTP"},
	Expired:      {"the ticket has expired", "run kinit"},
	NoKey:        {"the server's keytab has no key for this ticket", "add it with ktadd; klist -ke names the entries. After a new key, a client gets a new ticket by kinit"},
	WrongEnctype: {"no common encryption type", "want aes256-cts or aes128-cts, with SHA-1 or SHA-2: klist -ke shows those of a keytab, klist -e those of tickets"},
	UnknownName:  {"the name is not known to Kerberos", "give the server the name of its principal nfs/NAME, not an alias or an address"},
	NoCache:      {"there is no ticket", "run kinit"},
	NoKDC:        {"the KDC gives no ticket", "does krb5.conf name it, and does it run?"},
}

// Error is why there is no context.
type Error struct {
	Reason Reason
	Detail string // of this case, "" if Reason says it all
	Err    error  // the cause; may be nil
}

// Error ends with what to do.
func (e *Error) Error() string { return "krb5: " + e.What() + " (" + e.Fix() + ")" }

// What says what is wrong.
func (e *Error) What() string {
	s := reasons[e.Reason].what
	if e.Detail != "" {
		s = e.Detail + ": " + s
	}
	if e.Err != nil {
		s += ": " + strings.ReplaceAll(e.Err.Error(), "\n", ": ")
	}
	return s
}

// Fix says what to do.
func (e *Error) Fix() string { return reasons[e.Reason].fix }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// enctype names an encryption type, as klist does if it is one that is used here.
func enctype(n int32) string {
	if s, used := enctypeNames[n]; used {
		return s
	}
	return fmt.Sprintf("%d", n)
}

var enctypeNames = map[int32]string{
	etypeID.AES256_CTS_HMAC_SHA384_192: "aes256-cts-hmac-sha384-192", etypeID.AES128_CTS_HMAC_SHA256_128: "aes128-cts-hmac-sha256-128",
	etypeID.AES256_CTS_HMAC_SHA1_96: "aes256-cts-hmac-sha1-96", etypeID.AES128_CTS_HMAC_SHA1_96: "aes128-cts-hmac-sha1-96",
}

// Keytab has the keys of a server. It never changes.
type Keytab struct{ kt *keytab.Keytab }

// service is the first part of the names of servers of NFS (RFC 2623 Section 4.2).
const service = "nfs"

// LoadKeytab reads a file with keys. One that has none for nfs/NAME is an error.
func LoadKeytab(file string) (k *Keytab, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	defer func() { // its parser counts on a good file
		if v := recover(); v != nil {
			err = fmt.Errorf("%s is not a keytab: %v", file, v)
		}
	}()
	k = &Keytab{keytab.New()}
	if err := k.kt.Unmarshal(b); err != nil {
		return nil, fmt.Errorf("%s is not a keytab: %w", file, err)
	}
	if len(k.Realms()) == 0 {
		return nil, fmt.Errorf("%s has no key of %s/NAME for aes256-cts or aes128-cts: add it with ktadd; klist -ke shows what it has", file, service)
	}
	return k, nil
}

// Realms are those of the keys.
func (k *Keytab) Realms() (list []string) {
	for i := range k.kt.Entries {
		p := &k.kt.Entries[i].Principal
		if _, good := etypes[k.kt.Entries[i].Key.KeyType]; good && len(p.Components) > 1 && p.Components[0] == service && !slices.Contains(list, p.Realm) {
			list = append(list, p.Realm)
		}
	}
	return list
}

// Names are the principals that have keys.
func (k *Keytab) Names() (list []string) {
	for i := range k.kt.Entries {
		p := &k.kt.Entries[i].Principal
		if name := nameOf(p.Components, p.Realm); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// Accept begins the acceptor's end of a context.
func (k *Keytab) Accept() gss.Handshake { return &acceptor{k} }

type acceptor struct{ k *Keytab }

// Kinds of tokens (RFC 4121 Section 4.1).
const (
	tokenAPReq uint16 = 0x0100
	tokenAPRep uint16 = 0x0200
	tokenError uint16 = 0x0300
)

var mechanism = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}

// frame makes a token of a Kerberos message (RFC 2743 Section 3.1).
func frame(kind uint16, msg []byte) []byte {
	b, _ := asn1.Marshal(mechanism) // cannot fail
	return asn1tools.AddASNAppTag(append(binary.BigEndian.AppendUint16(b, kind), msg...), 0)
}

// unframe is its reverse.
func unframe(token []byte) (kind uint16, msg []byte, ok bool) {
	var raw asn1.RawValue
	rest, err := asn1.Unmarshal(token, &raw)
	if err != nil || len(rest) > 0 || raw.Class != asn1.ClassApplication || raw.Tag != 0 || !raw.IsCompound {
		return 0, nil, false
	}
	var oid asn1.ObjectIdentifier
	if rest, err = asn1.Unmarshal(raw.Bytes, &oid); err != nil || !oid.Equal(mechanism) || len(rest) < 2 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint16(rest), rest[2:], true
}

// nameOf writes a principal as Kerberos does, so that no two have one name.
func nameOf(parts []string, realm string) string {
	escape := strings.NewReplacer(`\`, `\\`, "/", `\/`, "@", `\@`)
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(escape.Replace(p))
	}
	return b.String() + "@" + escape.Replace(realm)
}

// Step implements gss.Handshake: it takes the AP-REQ.
func (a *acceptor) Step(token []byte) (reply []byte, c gss.Context, err error) {
	defer func() { // its parsers count on good messages
		if v := recover(); v != nil {
			reply, c, err = nil, nil, &Error{Reason: BadToken, Err: fmt.Errorf("%v", v)}
		}
	}()
	reply, sc, err := a.accept(token)
	if ke, ok := errors.AsType[messages.KRBError](err); ok {
		if b, e := ke.Marshal(); e == nil { // the initiator's user learns it
			reply = frame(tokenError, b)
		}
		err = explain(ke, "")
	}
	e, ours := errors.AsType[*Error](err)
	if err != nil && !ours {
		err = &Error{Reason: BadToken, Err: err}
	}
	if code, known := told[reasonOf(e)]; known && reply == nil {
		refusal := messages.NewKRBError(types.PrincipalName{NameString: []string{service}}, "", code, "")
		if b, e := refusal.Marshal(); e == nil {
			reply = frame(tokenError, b)
		}
	}
	if err != nil {
		return reply, nil, err
	}
	return reply, sc, nil
}

// told are the reasons of this server that are the client's business too.
var told = map[Reason]int32{NoKey: errorcode.KRB_AP_ERR_NOKEY, WrongEnctype: errorcode.KDC_ERR_ETYPE_NOSUPP}

// reasonOf returns the reason of an error, BadToken for nil.
func reasonOf(e *Error) Reason {
	if e == nil {
		return BadToken
	}
	return e.Reason
}

// explain makes an Error of what Kerberos says.
func explain(ke messages.KRBError, detail string) *Error {
	e := &Error{Reason: NoKDC, Detail: detail, Err: ke}
	switch ke.ErrorCode {
	case errorcode.KRB_AP_ERR_SKEW, errorcode.KRB_AP_ERR_TKT_NYV:
		e.Reason = Clock
	case errorcode.KRB_AP_ERR_TKT_EXPIRED:
		e.Reason = Expired
	case errorcode.KRB_AP_ERR_NOKEY, errorcode.KRB_AP_ERR_BADKEYVER:
		e.Reason = NoKey
	case errorcode.KDC_ERR_ETYPE_NOSUPP:
		e.Reason = WrongEnctype
	case errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN, errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN:
		e.Reason = UnknownName
	case errorcode.KRB_AP_ERR_BAD_INTEGRITY, errorcode.KRB_AP_ERR_BADMATCH, errorcode.KRB_AP_ERR_BADADDR, errorcode.KRB_AP_ERR_MODIFIED:
		e.Reason = BadToken
	}
	return e
}

// skew is how much clocks may differ.
const skew = 5 * time.Minute

// checksumGSS is the type of the authenticator's checksum, which has the flags (RFC 4121 Section 4.1.1).
const checksumGSS = 0x8003

const flagMutual = 2

// accept takes an AP-REQ. There is no cache of authenticators: whoever sends one again gets a context whose key he does
// not have, under a new handle, so that calls he has recorded are none of it.
func (a *acceptor) accept(token []byte) ([]byte, *secured, error) {
	kind, msg, ok := unframe(token)
	if !ok || kind != tokenAPReq {
		return nil, nil, &Error{Reason: BadToken, Detail: "no AP-REQ of Kerberos 5"}
	}
	var req messages.APReq
	if err := req.Unmarshal(msg); err != nil {
		return nil, nil, &Error{Reason: BadToken, Err: err}
	}
	t := &req.Ticket
	if n := t.SName.NameString; len(n) < 2 || n[0] != service {
		return nil, nil, &Error{Reason: BadToken, Detail: "a ticket for " + nameOf(n, t.Realm) + ", want one for " + service + "/NAME"}
	}
	for _, p := range []*types.EncryptedData{&t.EncPart, &req.EncryptedAuthenticator} {
		size, ok := etypes[p.EType]
		if !ok {
			return nil, nil, &Error{Reason: WrongEnctype, Detail: "a ticket for " + nameOf(t.SName.NameString, t.Realm) + " of type " + enctype(p.EType)}
		}
		if len(p.Cipher) < block+size {
			return nil, nil, &Error{Reason: BadToken, Detail: "a short ticket"}
		}
	}
	if err := a.k.holds(t); err != nil {
		return nil, nil, err
	}
	if good, err := req.Verify(a.k.kt, skew, types.HostAddress{}, nil); err != nil {
		return nil, nil, err
	} else if !good {
		return nil, nil, &Error{Reason: BadToken}
	}
	auth, part := &req.Authenticator, &t.DecryptedEncPart
	if auth.CRealm != part.CRealm {
		return nil, nil, &Error{Reason: BadToken, Detail: "a ticket of another realm's user"}
	}
	if sum := auth.Cksum; sum.CksumType != checksumGSS || len(sum.Checksum) < 24 {
		return nil, nil, &Error{Reason: BadToken, Detail: "an AP-REQ of another protocol"}
	}
	key := part.Key
	if auth.SubKey.KeyType != 0 {
		key = auth.SubKey
	}
	// No key of our own: many clients check the flag that it would put on every token, and some do not know it.
	// It ends as late as its ticket is taken: else a client whose clock is behind would get contexts that are over.
	c, err := secure(nameOf(part.CName.NameString, part.CRealm), part.EndTime.Add(skew), key, true, 0, firstSeq)
	if err != nil || binary.LittleEndian.Uint32(auth.Cksum.Checksum[20:])&flagMutual == 0 {
		return nil, c, err
	}
	reply, err := apRep(auth, part.Key)
	return reply, c, err
}

// firstSeq is the number of the acceptor's first token.
const firstSeq = 1

// holds looks for the key of a ticket, to say which is missing.
func (k *Keytab) holds(t *messages.Ticket) error {
	name, types, reason := nameOf(t.SName.NameString, t.Realm), []string{}, NoKey
	for i := range k.kt.Entries {
		switch e := &k.kt.Entries[i]; {
		case nameOf(e.Principal.Components, e.Principal.Realm) != name:
		case e.Key.KeyType == t.EncPart.EType && (t.EncPart.KVNO == 0 || int(e.KVNO) == t.EncPart.KVNO):
			return nil
		default:
			if int(e.KVNO) == t.EncPart.KVNO {
				reason = WrongEnctype
			}
			types = append(types, fmt.Sprintf("%s of version %d", enctype(e.Key.KeyType), e.KVNO))
		}
	}
	wants := fmt.Sprintf("a ticket for %s under a key of type %s, version %d", name, enctype(t.EncPart.EType), t.EncPart.KVNO)
	if len(types) == 0 {
		return &Error{Reason: NoKey, Detail: wants + "; the keytab has " + strings.Join(k.Names(), ", ")}
	}
	return &Error{Reason: reason, Detail: wants + "; the keytab has " + strings.Join(types, ", ")}
}

// apRep makes the AP-REP (RFC 4120 Section 5.5.2), which proves that this server has read the AP-REQ.
func apRep(auth *types.Authenticator, session types.EncryptionKey) ([]byte, error) {
	plain, err := gofork.Marshal(struct {
		CTime          time.Time `asn1:"generalized,explicit,tag:0"`
		Cusec          int       `asn1:"explicit,tag:1"`
		SequenceNumber int64     `asn1:"optional,explicit,tag:3"`
	}{auth.CTime, auth.Cusec, firstSeq})
	if err != nil {
		return nil, err
	}
	part, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	b, err := gofork.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: part})
	return frame(tokenAPRep, asn1tools.AddASNAppTag(b, asnAppTag.APREP)), err
}
