package engines

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// S3 is an object store in this process, so that it outlives servers that are killed.
type S3 struct {
	// Bucket is the address of a bucket, for Format with "minio".
	Bucket string
	// Fail, if not 0, refuses each PUT whose number it divides.
	Fail atomic.Int64
	// Full, if set, refuses each PUT for want of room, as MinIO does.
	Full atomic.Bool
	// Put, if set, is a func() that is called before each PUT is carried out.
	Put atomic.Value
	// Puts counts them, with those that were refused, which Refused counts too.
	Puts, Refused atomic.Int64
}

// NewS3 starts an object store that ends with the test.
func NewS3(t testing.TB) *S3 {
	t.Setenv("MINIO_ACCESS_KEY", "test") // for servers too
	t.Setenv("MINIO_SECRET_KEY", "test")
	s := new(S3)
	next := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n := s.Puts.Add(1)
			if f, _ := s.Put.Load().(func()); f != nil {
				f()
			}
			if s.Full.Load() {
				w.WriteHeader(http.StatusInsufficientStorage)
				_, _ = io.WriteString(w, `<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its minimum free drive threshold.</Message></Error>`)
				return
			}
			if every := s.Fail.Load(); every != 0 && n%every == 0 {
				s.Refused.Add(1)
				http.Error(w, "try later", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.Bucket = srv.URL + "/volume"
	return s
}
