package redial_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"math/big"
	"net"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Each connection of a client begins with TLS (RFC 9289), or is not used.
func ExampleConfig_tls() {
	cert := selfSigned()
	trusted := x509.NewCertPool()
	trusted.AddCert(cert.Leaf)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	tell := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
		fmt.Println("a call over", tls.VersionName(req.TLS.Version))
	})
	s := &transport.Server{Handler: tell, Config: &transport.Config{
		TLS: transport.TLS{Config: &tls.Config{Certificates: []tls.Certificate{cert}}},
	}}
	go s.ServeStream(l)
	defer s.Close()

	cfg := &transport.Config{TLS: transport.TLS{Config: &tls.Config{RootCAs: trusted}}}
	r, err := redial.New(&redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.DialStream(ctx, "tcp", l.Addr().String(), cfg)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Do(context.Background(), &rpc.Call{Prog: 400000, Vers: 1}, new(rpc.Reply)); err != nil {
		log.Fatal(err)
	}
	// Output: a call over TLS 1.3
}

// selfSigned makes a certificate of 127.0.0.1.
func selfSigned() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		log.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
