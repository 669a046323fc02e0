package proxy

// What the tests need of the inside.

var Later = later
