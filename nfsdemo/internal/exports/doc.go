// Package exports reads which directories a server exports, to whom and how: from an option of a command, or
// from a file.
//
//	file, err := exports.Load("/etc/nfsdemo.toml", exports.Defaults())
//	e, err := exports.Parse("/srv/data,ro,client=192.0.2.0/24", exports.Defaults())
//
// # Options
//
// They are those of exports(5), and client=NETWORK, which can be repeated. Those that mean something else here say so
// (Export.Says), and those that would mean nothing are refused. Without others: rw, root_squash and secure.
//
// # File
//
// The file is TOML. What it does not know it refuses. Options of an export hold for its clients unless these
// have their own; without clients, all addresses are admitted.
//
//	[[export]]
//	path = "/srv/data"
//	options = "ro"
//
//	[[export.client]]
//	networks = ["192.0.2.0/24", "2001:db8::/32"]
//	options = "rw,no_root_squash"
//
//	[[export.client]]
//	networks = ["198.51.100.7"]
//
// Who a principal of Kerberos is, if not the user of its name, stands above the exports:
//
//	realms = ["EXAMPLE.ORG"]
//
//	[principals]
//	"host/backup.example.org@EXAMPLE.ORG" = "backup"
package exports
