// Package tlstest makes certificates for tests.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certification authority.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

// New makes a CA.
func New(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{t: t}
	tmpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
	}
	cert := ca.sign(tmpl)
	ca.key = cert.PrivateKey.(*ecdsa.PrivateKey)
	ca.cert = cert.Leaf
	return ca
}

// sign signs a certificate, that of the CA itself first.
func (ca *CA) sign(tmpl *x509.Certificate) tls.Certificate {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	ca.last++
	tmpl.SerialNumber = big.NewInt(ca.last)
	by, with := tmpl, key
	if ca.cert != nil {
		by, with = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by, key.Public(), with)
	if err != nil {
		ca.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Issue makes a certificate of the machine name, which is 127.0.0.1 too, for either end; it is valid until the end.
func (ca *CA) Issue(name string, end time.Time) tls.Certificate {
	ca.t.Helper()
	return ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Pool has this CA alone.
func (ca *CA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.cert)
	return p
}

// File writes the certificate of the CA to a file of dir, and returns its name.
func (ca *CA) File(dir string) string {
	ca.t.Helper()
	return write(ca.t, filepath.Join(dir, ca.cert.Subject.CommonName+".ca.pem"), "CERTIFICATE", ca.cert.Raw)
}

// Files writes a certificate and its key to files of dir, and returns their names.
func Files(t testing.TB, dir string, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, c.Leaf.Subject.CommonName)
	return write(t, name+".pem", "CERTIFICATE", c.Certificate[0]), write(t, name+".key", "PRIVATE KEY", der)
}

func write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
