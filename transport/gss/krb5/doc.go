// Package krb5 is Kerberos 5 as a mechanism of RPCSEC_GSS (RFC 4120, 4121), with the encryption types of RFC 3962 and RFC
// 8009. A server has a [Keytab]; a client asks the KDC with the tickets of a cache that kinit has filled: [FromCache].
//
//	kt, err := krb5.LoadKeytab("/etc/krb5.keytab")
//	server := &transport.Server{Handler: h, Config: &transport.Config{GSS: transport.GSS{Accept: kt.Accept}}}
//
//	alice := gss.NewClient(gss.Privacy, krb5.FromCache("nfs.example.org"))
//	client, err := transport.Dial(ctx, "tcp", "nfs.example.org:20049", &transport.Config{GSS: transport.GSS{Client: alice}})
package krb5
