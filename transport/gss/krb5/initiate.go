package krb5

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/transport/gss"
)

// FromCache returns what begins contexts with nfs/host, for gss.NewClient. Each time it reads krb5.conf ($KRB5_CONFIG, or
// /etc/krb5.conf) and the ticket cache of this process's user ($KRB5CCNAME, or /tmp/krb5cc_UID), which must be a file,
// and asks the KDC. Errors are *Error.
func FromCache(host string) func(ctx context.Context) (gss.Handshake, error) {
	return func(ctx context.Context) (gss.Handshake, error) {
		type result struct {
			i   *initiator
			err error
		}
		done := make(chan result, 1)
		go func() { // what asks the KDC has time limits of its own, and no context
			i, err := ask(host)
			done <- result{i, err}
		}()
		select {
		case r := <-done:
			if r.err != nil {
				return nil, r.err
			}
			return r.i, nil
		case <-ctx.Done():
			return nil, &Error{Reason: NoKDC, Err: context.Cause(ctx)}
		}
	}
}

// cacheFile returns the file of the ticket cache.
func cacheFile() (string, error) {
	name := cmp.Or(os.Getenv("KRB5CCNAME"), "FILE:/tmp/krb5cc_"+strconv.Itoa(os.Getuid()))
	kind, file, ok := strings.Cut(name, ":")
	if !ok {
		return name, nil
	}
	if kind != "FILE" {
		return "", &Error{Reason: NoCache, Detail: fmt.Sprintf("the ticket cache %s is not a file, and only files can be read: set KRB5CCNAME=FILE:/path, and run kinit again", name)}
	}
	return file, nil
}

// ask gets a ticket.
func ask(host string) (i *initiator, err error) {
	file, err := cacheFile()
	if err != nil {
		return nil, err
	}
	defer func() { // the parser counts on a good file
		if v := recover(); v != nil {
			i, err = nil, &Error{Reason: NoCache, Detail: file, Err: fmt.Errorf("%v", v)}
		}
	}()
	conf, _, _ := strings.Cut(cmp.Or(os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf"), ":")
	cfg, err := config.Load(conf)
	if _, odd := errors.AsType[config.UnsupportedDirective](err); err != nil && !odd {
		return nil, &Error{Reason: NoKDC, Detail: conf, Err: err}
	}
	cache, err := credentials.LoadCCache(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Reason: NoCache, Detail: "there is no " + file + "; other kinds of caches (KCM, KEYRING, DIR) cannot be read: set KRB5CCNAME=FILE:/path"}
	case err != nil:
		return nil, &Error{Reason: NoCache, Detail: file, Err: err}
	}
	realm := cache.DefaultPrincipal.Realm
	tgt, ok := cache.GetEntry(types.PrincipalName{NameString: []string{"krbtgt", realm}})
	if !ok {
		return nil, &Error{Reason: NoCache, Detail: file + " has no ticket-granting ticket"}
	}
	if !time.Now().Before(tgt.EndTime) {
		return nil, &Error{Reason: Expired, Detail: "that of " + nameOf(cache.DefaultPrincipal.PrincipalName.NameString, realm)}
	}
	cl, err := client.NewFromCCache(cache, cfg, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, &Error{Reason: NoCache, Detail: file, Err: err}
	}
	defer cl.Destroy()
	spn := service + "/" + strings.TrimSuffix(strings.ToLower(host), ".")
	ticket, key, err := cl.GetServiceTicket(spn)
	if err != nil {
		if ke, ok := errors.AsType[messages.KRBError](err); ok {
			return nil, explain(ke, spn)
		}
		e := &Error{Reason: NoKDC, Detail: spn, Err: err}
		for code, reason := range map[int32]Reason{ // the module keeps the text only
			errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN: UnknownName, errorcode.KRB_AP_ERR_SKEW: Clock,
			errorcode.KDC_ERR_ETYPE_NOSUPP: WrongEnctype, errorcode.KRB_AP_ERR_TKT_EXPIRED: Expired,
		} {
			if strings.Contains(err.Error(), errorcode.Lookup(code)) {
				e.Reason = reason
			}
		}
		return nil, e
	}
	return &initiator{
		who: cache.DefaultPrincipal.PrincipalName, realm: realm, ticket: ticket, key: key, end: tgt.EndTime,
	}, nil
}

// initiator is the initiator's end of a context that is not established.
type initiator struct {
	who    types.PrincipalName
	realm  string
	ticket messages.Ticket
	key    types.EncryptionKey // of the session
	end    time.Time           // the server's may be earlier: then it says so

	auth types.Authenticator // sent
}

// Step implements gss.Handshake: it sends the AP-REQ, and takes the AP-REP.
func (i *initiator) Step(token []byte) (reply []byte, c gss.Context, err error) {
	if token == nil {
		reply, err = i.request()
		return reply, nil, err
	}
	defer func() { // its parsers count on good messages
		if v := recover(); v != nil {
			reply, c, err = nil, nil, &Error{Reason: BadToken, Err: fmt.Errorf("%v", v)}
		}
	}()
	sc, err := i.establish(token)
	if err != nil {
		return nil, nil, err
	}
	return nil, sc, nil
}

// request makes the AP-REQ, with a key of our own for this context.
func (i *initiator) request() ([]byte, error) {
	if _, good := etypes[i.key.KeyType]; !good {
		return nil, &Error{Reason: WrongEnctype, Detail: "a ticket with a key of type " + enctype(i.key.KeyType)}
	}
	auth, err := types.NewAuthenticator(i.realm, i.who)
	if err != nil {
		return nil, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(i.key.KeyType, len(i.key.KeyValue)); err != nil {
		return nil, err
	}
	sum := binary.LittleEndian.AppendUint32(nil, 16)
	sum = append(sum, make([]byte, 16)...) // no channel bindings
	// Neither detection of replay nor order: calls overtake each other, and have numbers of their own (RFC 2203 Section 5.2.2).
	const confidential, integrity = 16, 32
	auth.Cksum = types.Checksum{CksumType: checksumGSS, Checksum: binary.LittleEndian.AppendUint32(sum, flagMutual|confidential|integrity)}
	req, err := messages.NewAPReq(i.ticket, i.key, auth)
	if err != nil {
		return nil, err
	}
	const mutualRequired = 2 // a bit of the options
	types.SetFlag(&req.APOptions, mutualRequired)
	b, err := req.Marshal()
	i.auth = auth
	return frame(tokenAPReq, b), err
}

// establish takes the AP-REP.
func (i *initiator) establish(token []byte) (*secured, error) {
	kind, msg, ok := unframe(token)
	if ok && kind == tokenError {
		var ke messages.KRBError
		if err := ke.Unmarshal(msg); err != nil {
			return nil, &Error{Reason: BadToken, Err: err}
		}
		return nil, explain(ke, "the server says")
	}
	var rep messages.APRep
	if !ok || kind != tokenAPRep || rep.Unmarshal(msg) != nil || rep.EncPart.EType != i.key.KeyType || len(rep.EncPart.Cipher) < block+etypes[i.key.KeyType] {
		return nil, &Error{Reason: BadToken, Detail: "no AP-REP of Kerberos 5"}
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, i.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, &Error{Reason: BadToken, Err: err}
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, &Error{Reason: BadToken, Err: err}
	}
	if part.Cusec != i.auth.Cusec || part.CTime.Unix() != i.auth.CTime.Unix() {
		return nil, &Error{Reason: BadToken, Detail: "the AP-REP answers another AP-REQ"}
	}
	key, subkey := i.auth.SubKey, byte(0)
	if part.Subkey.KeyType != 0 {
		key, subkey = part.Subkey, flagSubkey
	}
	return secure(nameOf(i.who.NameString, i.realm), i.end, key, false, subkey, uint64(i.auth.SeqNumber))
}
