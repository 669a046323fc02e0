package main

// What the tests need of the inside.

var Write = write
