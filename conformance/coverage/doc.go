// Package coverage says which test proves which rule. A rule is a [Row] of a document's
// table in our words; a test names the rows it proves with a tag:
//
//   - the comment "// spec: rdmap 7.4 response" on a test or inside it;
//   - in a table of the test, an element's field spec: "rdmap 7.3 F-AW". It is the name
//     of the subtest too.
//
// [Scan] finds the tags in the source, [New] brings both together. [Mutants] are faults
// that can be switched on in a build of their own, with the rows that each one breaks:
// the tests of those rows must then fail, and [Try] sees that they do.
//
// A document may also be there sentence by sentence, with the rules by which a judge of captures
// sees each broken: see package judge.
package coverage
