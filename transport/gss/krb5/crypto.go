package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"hash"
	"sync"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/common"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/types"
)

// etypes are the encryption types, best first, and how many octets the checksum of a message has.
var etypes = map[int32]int{
	etypeID.AES256_CTS_HMAC_SHA384_192: 24, etypeID.AES128_CTS_HMAC_SHA256_128: 16,
	etypeID.AES256_CTS_HMAC_SHA1_96: 12, etypeID.AES128_CTS_HMAC_SHA1_96: 12,
}

const block = aes.BlockSize

// macs are the MACs with one key: making one costs twice as much as a MAC of a header.
type macs struct {
	pool sync.Pool
	size int
}

func (m *macs) sum(parts ...[]byte) []byte {
	h := m.pool.Get().(hash.Hash)
	defer m.pool.Put(h)
	h.Reset()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)[:m.size]
}

// keys are those of one direction, derived once.
type keys struct {
	sign, seal *macs
	aes        cipher.Block
	whole      bool // the checksum is that of the encrypted octets (RFC 8009), else that of the plain ones (RFC 3962)
}

// derive makes the keys for the usages of RFC 4121 Section 2.
func derive(k types.EncryptionKey, sign, seal uint32) (*keys, error) {
	size, ok := etypes[k.KeyType]
	if !ok {
		return nil, &Error{Reason: WrongEnctype, Detail: "a key of type " + enctype(k.KeyType)}
	}
	et, err := crypto.GetEtype(k.KeyType)
	if err != nil {
		return nil, err
	}
	if len(k.KeyValue) != keySize(et) {
		return nil, &Error{Reason: BadToken, Detail: "a key of the wrong size"}
	}
	mac := func(usage []byte) *macs {
		key, e := et.DeriveKey(k.KeyValue, usage)
		if e != nil {
			err = e
		}
		return &macs{sync.Pool{New: func() any { return hmac.New(et.GetHashFunc(), key) }}, size}
	}
	ks := &keys{
		sign: mac(common.GetUsageKc(sign)), seal: mac(common.GetUsageKi(seal)),
		whole: k.KeyType == etypeID.AES128_CTS_HMAC_SHA256_128 || k.KeyType == etypeID.AES256_CTS_HMAC_SHA384_192,
	}
	ke, e := et.DeriveKey(k.KeyValue, common.GetUsageKe(seal))
	if err != nil || e != nil {
		return nil, &Error{Reason: BadToken, Detail: "keys cannot be derived"}
	}
	ks.aes, err = aes.NewCipher(ke)
	return ks, err
}

// keySize returns the size of a key; that of AES-256 with SHA-384 is not what the module says, which is of a checksum key.
func keySize(et etype.EType) int {
	if et.GetETypeID() == etypeID.AES256_CTS_HMAC_SHA384_192 {
		return 32
	}
	return et.GetKeyByteSize()
}

// appendSealed appends the encrypted message that the parts make, with its checksum.
func (k *keys) appendSealed(b []byte, parts ...[]byte) []byte {
	at := len(b)
	b = append(b, make([]byte, block)...)
	rand.Read(b[at:]) // the confounder
	for _, p := range parts {
		b = append(b, p...)
	}
	n := len(b)
	var sum []byte
	if !k.whole {
		sum = k.seal.sum(b[at:])
	}
	b = append(b, make([]byte, block)...) // room for the last block
	encryptCTS(k.aes, b[at:], n-at)
	b = b[:n]
	if k.whole {
		sum = k.seal.sum(zeros[:], b[at:]) // with the initial vector
	}
	return append(b, sum...)
}

var zeros [block]byte

// open takes a sealed message, and returns a view of the plain one. It returns false unless the checksum is right.
func (k *keys) open(b []byte) ([]byte, bool) {
	n := len(b) - k.seal.size
	if n < block {
		return nil, false
	}
	sum := b[n:]
	b = b[:n]
	if k.whole && !hmac.Equal(sum, k.seal.sum(zeros[:], b)) {
		return nil, false
	}
	decryptCTS(k.aes, b)
	if !k.whole && !hmac.Equal(sum, k.seal.sum(b)) {
		return nil, false
	}
	return b[block:], true
}

// encryptCTS encrypts the first n octets of b, at least a block, which has room for one block more, by CBC with ciphertext
// stealing and a zero initial vector (RFC 3962 Section 5): the last two blocks change places, and what makes the new last
// one longer than n is cut.
func encryptCTS(c cipher.Block, b []byte, n int) {
	m := (n + block - 1) / block * block
	clear(b[n:m])
	cipher.NewCBCEncrypter(c, zeros[:]).CryptBlocks(b[:m], b[:m])
	if m == block {
		return
	}
	var last [block]byte
	copy(last[:], b[m-block:m])
	copy(b[m-block:m], b[m-2*block:m-block])
	copy(b[m-2*block:], last[:])
}

// decryptCTS is its reverse.
func decryptCTS(c cipher.Block, b []byte) {
	n := len(b)
	if n == block {
		c.Decrypt(b, b)
		return
	}
	m := (n + block - 1) / block * block
	head, last, short := b[:m-2*block], b[m-2*block:m-block], b[m-block:]
	var before, stolen [block]byte // what CBC adds to the last but one; the last plain block, with the end of the other's
	if len(head) > 0 {
		copy(before[:], head[len(head)-block:])
		cipher.NewCBCDecrypter(c, zeros[:]).CryptBlocks(head, head)
	}
	c.Decrypt(stolen[:], last)
	for i, v := range short {
		last[i] = v // the rest of last follows
		short[i] = stolen[i] ^ v
	}
	copy(last[len(short):], stolen[len(short):])
	c.Decrypt(last, last)
	for i, v := range before {
		last[i] ^= v
	}
}
