// Command stagjfs serves a JuiceFS volume over NFSv3 on RPC-over-RDMA. Several of them, on several machines, serve the
// same files.
//
//	stagjfs serve postgres://stag@db/volume --listen 192.0.2.5:20049 --allow 192.0.2.0/24
package main

import (
	"context"
	"os"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs"
	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func main() { os.Exit(cli.MainOf(storage(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// storage is what stagjfs serves.
func storage() *cli.Storage {
	var cfg juicefs.Config
	return &cli.Storage{
		Program:  "stagjfs",
		Commands: []*cobra.Command{format()},
		Short:    "A JuiceFS volume over NFS/RDMA, from any number of servers",
		Arg:      "META-URL",
		Long: `serve exports a JuiceFS volume, which stagjfs format or juicefs format has made, over NFSv3 on RPC-over-RDMA (software iWARP), and with
--tcp over NFS/TCP too. META-URL is where the metadata of the volume are, as for juicefs mount. The password of the
database comes from META_PASSWORD or META_PASSWORD_FILE.

Start it on as many machines as you like: a client may use any of them, and go on at another one. What one has
acknowledged as stable, all of them have. Locks are held at all of them.

A database or an object store that could lose what it has acknowledged is refused.`,
		Example: `  stagjfs serve postgres://stag@db/volume --listen 192.0.2.5:20049 --allow 192.0.2.0/24
  stagjfs serve postgres://stag@db/volume --export /home --export /scratch,no_root_squash
  stagjfs serve postgres://stag@db/volume --tcp 192.0.2.5:2049 --register --status 127.0.0.1:9049`,
		Flags: func(cmd *cobra.Command) {
			flags := cmd.Flags()
			flags.BoolVar(&cfg.Trust, "trust-stores", false, "accept a database and an object store that may lose what they have acknowledged")
			flags.Uint64Var(&cfg.Buffer, "buffer", juicefs.DefaultBuffer, "about how many `octets` may be unstable or read ahead")
			flags.Uint64Var(&cfg.Cache, "cache", juicefs.DefaultCache, "how many `octets` of objects to keep in memory")
		},
		Open: func(ctx context.Context, uri string) (cli.Volume, error) {
			utils.SetLogLevel(logrus.WarnLevel)
			cfg.Name, _ = os.Hostname() // only JuiceFS's list of clients shows it
			v, err := juicefs.Open(ctx, uri, &cfg)
			if err != nil {
				return nil, err
			}
			return volume{v}, nil
		},
	}
}

// format is the command that makes a volume.
func format() *cobra.Command {
	var storage, bucket string
	cmd := &cobra.Command{
		Use: "format META-URL NAME", Short: "Make a volume in an empty database",
		Long: `format makes a volume in an empty database, and tries the object store. The keys of the store come from ACCESS_KEY and
SECRET_KEY, the password of the database from META_PASSWORD or META_PASSWORD_FILE. Removed files are gone: there is no trash.
juicefs format has more options.`,
		Example: `  stagjfs format --bucket http://s3:9000/volume postgres://stag@db/volume volume`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			utils.SetLogLevel(logrus.WarnLevel)
			return juicefs.Format(cmd.Context(), args[0], args[1], storage, bucket)
		},
	}
	cmd.Flags().StringVar(&storage, "storage", "minio", "`kind` of the object store: minio, s3, file, or another one of JuiceFS")
	cmd.Flags().StringVar(&bucket, "bucket", "", "`address` of the bucket, or the directory")
	return cmd
}

type volume struct{ *juicefs.Volume }

// Export implements cli.Volume.
func (v volume) Export(path string) (backend.FS, error) { return v.FS(path) }
