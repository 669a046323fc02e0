package dir

// Defaults of [Config].
const (
	DefaultMaxNodes    = 1 << 18
	DefaultMaxFiles    = 256
	DefaultMaxDirs     = 128
	DefaultSearchLimit = 1 << 20
)

// Config says how a directory is served. New copies it; nil means the defaults.
type Config struct {
	// Async omits the fsync after changes of names and attributes: a crash of the machine
	// may undo them. WRITE and COMMIT are not affected.
	Async bool
	// Exclusive promises that nobody else changes the directory. Then replies contain the
	// attributes from before a change, and clients need not empty their caches.
	Exclusive bool
	// MaxNodes limits the number of files whose place is remembered, about 200 octets each.
	// If zero, DefaultMaxNodes.
	MaxNodes int
	// MaxFiles limits the number of files kept open for READ and WRITE, one descriptor each.
	// If zero, DefaultMaxFiles.
	MaxFiles int
	// MaxDirs limits the number of directories kept open, two descriptors each. If zero,
	// DefaultMaxDirs.
	MaxDirs int
	// SearchLimit limits the number of names that one search for files in unknown places
	// looks at. If zero, DefaultSearchLimit; if negative, there is no search.
	SearchLimit int
}

// fill returns a copy of c with the defaults in place.
func (c *Config) fill() Config {
	var out Config
	if c != nil {
		out = *c
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&out.MaxNodes, DefaultMaxNodes)
	def(&out.MaxFiles, DefaultMaxFiles)
	def(&out.MaxDirs, DefaultMaxDirs)
	def(&out.SearchLimit, DefaultSearchLimit)
	return out
}
