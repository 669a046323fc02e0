package nfs3

// What the tests need of the inside.

var StatusNames = &statusNames
