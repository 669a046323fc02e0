package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/redial"
)

var rounds = flag.Int("rounds", 3, "how often TestFailover kills a server")

// Sizes of what a round writes.
const (
	blockSize  = 16 << 10
	afterKill  = 20 // blocks
	uploadSize = 4 << 20
)

// TestFailover kills one of two servers while a client writes, again and again. The client goes on at the other one, and
// what was acknowledged is there.
func TestFailover(t *testing.T) { testFailover(t, newVolume(t)) }

// TestFailoverS3 does so with objects in S3, which refuses some of them.
func TestFailoverS3(t *testing.T) {
	uri, s3 := engines.Postgres(t), engines.NewS3(t)
	engines.Format(t, uri, "minio", s3.Bucket)
	s3.Fail.Store(7)
	testFailover(t, uri)
	if s3.Refused.Load() == 0 {
		t.Errorf("of %d objects, none was refused", s3.Puts.Load())
	}
	t.Logf("of %d objects, %d were refused", s3.Puts.Load(), s3.Refused.Load())
}

func testFailover(t *testing.T, uri string) {
	ch := &choice{servers: []*server{start(t, uri), start(t, uri)}}
	r, err := redial.New(&redial.Config{Dial: ch.dial, MinDelay: 10 * time.Millisecond, Patience: time.Minute})
	noErr(t, err)
	defer r.Close()
	c := client(t, r)
	rnd := rand.New(rand.NewPCG(1, 2))
	var worst time.Duration
	for i := range *rounds {
		f := &failover{T: t, c: c, name: fmt.Sprintf("round%d", i)}
		f.prepare()
		var wg sync.WaitGroup
		killed := make(chan struct{})
		wg.Go(func() { f.write(killed) })
		wg.Go(func() { f.upload(killed) })
		wg.Go(func() { f.rename(killed) })
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		victim := ch.now()
		victim.kill()
		close(killed)
		wg.Wait()
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
		f.check(dial(t, ch.now()))
		victim.restart()
		worst = max(worst, f.slowest)
		t.Logf("round %d: %d blocks, the slowest took %v", i, f.acked.Load(), f.slowest.Round(time.Millisecond))
	}
	t.Logf("%d rounds, the longest pause %v, %d connections, %d calls sent again", *rounds, worst.Round(time.Millisecond), r.Stats().Accepted, r.Stats().Retransmits)
}

// failover is one round.
type failover struct {
	*testing.T
	c       *nfsclient.Client
	name    string
	stream  *nfsclient.Node // written block by block, each FILE_SYNC
	file    *nfsclient.Node // written UNSTABLE, with COMMIT
	data    []byte
	acked   atomic.Int64 // blocks of stream
	slowest time.Duration
}

func (f *failover) prepare() {
	for name, n := range map[string]**nfsclient.Node{".stream": &f.stream, ".file": &f.file, ".old": new(*nfsclient.Node)} {
		var err error
		if *n, err = f.c.Create(f.Context(), f.c.Root(), f.name+name, 0o644, false); err != nil {
			f.Fatal(err)
		}
	}
	f.data = make([]byte, uploadSize)
}

// block is the content of a block of the stream.
func (f *failover) block(i int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%-15s\n", fmt.Sprint(f.name, " ", i)), blockSize/16)
}

// write appends blocks until enough have been acknowledged after the kill.
func (f *failover) write(killed chan struct{}) {
	for left := afterKill; left > 0; {
		i := f.acked.Load()
		began := time.Now()
		n, _, err := f.c.WriteAt(f.Context(), f.stream, f.block(i), i*blockSize, nfs3.FileSync)
		if err != nil || n != blockSize {
			f.Errorf("block %d: %d octets, %v", i, n, err)
			return
		}
		f.slowest = max(f.slowest, time.Since(began))
		f.acked.Add(1)
		select {
		case <-killed:
			left--
		default:
		}
	}
}

// upload writes the file over and over, so that one of these is going on when the server is killed.
func (f *failover) upload(killed chan struct{}) {
	for last := false; !last; {
		for i := range f.data {
			f.data[i] = byte(rand.Uint32())
		}
		n, err := f.c.WriteFrom(f.Context(), f.file, bytes.NewReader(f.data), 0, uploadSize, nil)
		if err != nil || n != uploadSize {
			f.Errorf("upload: %d octets, %v", n, err)
			return
		}
		select {
		case <-killed:
			last = true
		default:
		}
	}
}

// rename moves a name at the moment of the kill.
func (f *failover) rename(killed chan struct{}) {
	<-killed
	if err := f.c.Rename(f.Context(), f.c.Root(), f.name+".old", f.c.Root(), f.name+".new"); err != nil {
		f.Errorf("rename: %v", err)
	}
}

// check compares what is there with what was acknowledged.
func (f *failover) check(c *nfsclient.Client) {
	got := f.read(c, f.stream, f.acked.Load()*blockSize)
	for i := range f.acked.Load() {
		if !bytes.Equal(got[i*blockSize:(i+1)*blockSize], f.block(i)) {
			f.Fatalf("block %d was acknowledged and is lost", i)
		}
	}
	if !bytes.Equal(f.read(c, f.file, uploadSize), f.data) {
		f.Fatal("the file was committed and differs")
	}
	if _, err := c.Child(f.Context(), c.Root(), f.name+".new"); err != nil {
		f.Fatalf("the renamed file: %v", err)
	}
}

func (f *failover) read(c *nfsclient.Client, n *nfsclient.Node, size int64) []byte {
	p := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(c.Source(f.Context(), n), 0, size), p); err != nil {
		f.Fatal(err)
	}
	return p
}
