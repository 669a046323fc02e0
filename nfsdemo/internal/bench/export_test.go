package bench

// What the tests need of the inside.

var RingSize = &ringSize
