package krb5

import (
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/transport/gss"
)

// NewKeytab is LoadKeytab without a file.
func NewKeytab(kt *keytab.Keytab) *Keytab { return &Keytab{kt} }

// Initiate begins a context with a ticket that a test has made.
func Initiate(who types.PrincipalName, realm string, t messages.Ticket, key types.EncryptionKey, end time.Time) gss.Handshake {
	return &initiator{who: who, realm: realm, ticket: t, key: key, end: end}
}

// Secure makes a context with a key.
func Secure(k types.EncryptionKey, acceptor, subkey bool) (gss.Context, error) {
	flag := byte(0)
	if subkey {
		flag = flagSubkey
	}
	return secure("alice@STAG.TEST", time.Now().Add(time.Hour), k, acceptor, flag, 1)
}

// Frame makes a token.
var Frame = frame
