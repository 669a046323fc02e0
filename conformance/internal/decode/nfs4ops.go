package decode

// nfsOp describes an operation of NFSv4, in the language of walker.
type nfsOp struct {
	name string
	args string
	res  string // after the status, if that is NFS4_OK
	fail string // other arms of the union of results, and for SETATTR what follows any status
}

// nfs4Ops are the operations of COMPOUND by number: 3 to 39 RFC 7531, 40 to 58 RFC 5662, 59 to 71
// RFC 7863, 72 to 75 RFC 8276.
var nfs4Ops = map[uint32]nfsOp{
	3:  {name: "ACCESS", args: "i", res: "ii"},
	4:  {name: "CLOSE", args: "iS", res: "S"},
	5:  {name: "COMMIT", args: "qi", res: "V"},
	6:  {name: "CREATE", args: "@{3 ii|4 ii|5 D|_ }oF", res: "iqqB"},
	7:  {name: "DELEGPURGE", args: "q"},
	8:  {name: "DELEGRETURN", args: "S"},
	9:  {name: "GETATTR", args: "B", res: "F"},
	10: {name: "GETFH", res: "o"},
	11: {name: "LINK", args: "o", res: "iqq"},
	12: {name: "LOCK", args: "iiqq@{1 iSiqo|0 Si}", res: "S", fail: "10010 qqiqo|"},
	13: {name: "LOCKT", args: "iqqqo", fail: "10010 qqiqo|"},
	14: {name: "LOCKU", args: "iiSqq", res: "S"},
	15: {name: "LOOKUP", args: "o"},
	16: {name: "LOOKUPP"},
	17: {name: "NVERIFY", args: "F"},
	18: {
		name: "OPEN", args: "iiiqo@{1 @{0 F|1 F|2 V|3 VF}|_ }@{0 o|1 i|2 So|3 o|4 |5 S|6 }", res: "SiqqiBG",
	},
	19: {name: "OPENATTR", args: "i"},
	20: {name: "OPEN_CONFIRM", args: "Si", res: "S"},
	21: {name: "OPEN_DOWNGRADE", args: "Siii", res: "S"},
	22: {name: "PUTFH", args: "o"},
	23: {name: "PUTPUBFH"},
	24: {name: "PUTROOTFH"},
	25: {name: "READ", args: "Sqi", res: "iD"},
	26: {name: "READDIR", args: "qViiB", res: "V+{qoF}i"},
	27: {name: "READLINK", res: "D"},
	28: {name: "REMOVE", args: "o", res: "iqq"},
	29: {name: "RENAME", args: "oo", res: "iqqiqq"},
	30: {name: "RENEW", args: "q"},
	31: {name: "RESTOREFH"},
	32: {name: "SAVEFH"},
	33: {name: "SECINFO", args: "o", res: "*{@{6 oii|_ }}"},
	34: {name: "SETATTR", args: "SF", res: "B", fail: "_ B|"},
	35: {name: "SETCLIENTID", args: "Voiooi", res: "qV", fail: "10017 oo|"},
	36: {name: "SETCLIENTID_CONFIRM", args: "qV"},
	37: {name: "VERIFY", args: "F"},
	38: {name: "WRITE", args: "SqiD", res: "iiV"},
	39: {name: "RELEASE_LOCKOWNER", args: "qo"},

	40: {name: "BACKCHANNEL_CTL", args: "i*{P}"},
	41: {name: "BIND_CONN_TO_SESSION", args: "Sii", res: "Sii"},
	42: {name: "EXCHANGE_ID", args: "Voi@{0 |1 BB|2 BB*{o}*{o}ii}*{ooqi}", res: "qii@{0 |1 BB|2 BBiiii*{o}}qoo*{ooqi}"},
	43: {name: "CREATE_SESSION", args: "qiiCCi*{P}", res: "SiiCC"},
	44: {name: "DESTROY_SESSION", args: "S"},
	45: {name: "FREE_STATEID", args: "S"},
	46: {name: "GET_DIR_DELEGATION", args: "iBqiqiBB", res: "@{0 VSBBB|1 i}"},
	47: {name: "GETDEVICEINFO", args: "SiiB", res: "ioB", fail: "10005 i|"},
	48: {name: "GETDEVICELIST", args: "iiqV", res: "qV*{S}i"},
	49: {name: "LAYOUTCOMMIT", args: "qqiS?{q}?{qi}io", res: "?{q}"},
	50: {name: "LAYOUTGET", args: "iiiqqqSi", res: "iS*{qqiio}", fail: "10058 i|"},
	51: {name: "LAYOUTRETURN", args: "iii@{1 qqSo|2 |3 }", res: "?{S}"},
	52: {name: "SECINFO_NO_NAME", args: "i", res: "*{@{6 oii|_ }}"},
	53: {name: "SEQUENCE", args: "Siiii", res: "Siiiii"},
	54: {name: "SET_SSV", args: "oo", res: "o"},
	55: {name: "TEST_STATEID", args: "*{S}", res: "*{i}"},
	56: {name: "WANT_DELEGATION", args: "i@{1 i|4 |6 }", res: "G"},
	57: {name: "DESTROY_CLIENTID", args: "q"},
	58: {name: "RECLAIM_COMPLETE", args: "i"},

	59: {name: "ALLOCATE", args: "Sqq"},
	60: {name: "COPY", args: "SSqqqii*{N}", res: "Wii", fail: "10094 ii|"},
	61: {name: "COPY_NOTIFY", args: "SN", res: "qiS*{N}"},
	62: {name: "DEALLOCATE", args: "Sqq"},
	63: {name: "IO_ADVISE", args: "SqqB", res: "B"},
	64: {name: "LAYOUTERROR", args: "qqS*{Sii}"},
	65: {name: "LAYOUTSTATS", args: "qqSqqqqSio"},
	66: {name: "OFFLOAD_CANCEL", args: "S"},
	67: {name: "OFFLOAD_STATUS", args: "S", res: "q*{i}"},
	68: {name: "READ_PLUS", args: "Sqi", res: "i*{@{0 qD|1 qq}}"},
	69: {name: "SEEK", args: "Sqi", res: "iq"},
	70: {name: "WRITE_SAME", args: "Siqqqqiqo", res: "W"},
	71: {name: "CLONE", args: "SSqqq"},
	72: {name: "GETXATTR", args: "o", res: "o"},
	73: {name: "SETXATTR", args: "ioo", res: "iqq"},
	74: {name: "LISTXATTRS", args: "qi", res: "q*{o}i"},
	75: {name: "REMOVEXATTR", args: "o", res: "iqq"},

	10044: {name: "ILLEGAL"},
}

// nfs4Callbacks are the operations of CB_COMPOUND by number.
var nfs4Callbacks = map[uint32]nfsOp{
	3:     {name: "CB_GETATTR", args: "oB", res: "F"},
	4:     {name: "CB_RECALL", args: "Sio"},
	5:     {name: "CB_LAYOUTRECALL", args: "iii@{1 oqqS|2 qq|3 }"},
	6:     {name: "CB_NOTIFY", args: "So*{Bo}"},
	7:     {name: "CB_PUSH_DELEG", args: "oG"},
	8:     {name: "CB_RECALL_ANY", args: "iB"},
	9:     {name: "CB_RECALLABLE_OBJ_AVAIL", args: "iB"},
	10:    {name: "CB_RECALL_SLOT", args: "i"},
	11:    {name: "CB_SEQUENCE", args: "Siiii*{S*{ii}}", res: "Siiii"},
	12:    {name: "CB_WANTS_CANCELLED", args: "ii"},
	13:    {name: "CB_NOTIFY_LOCK", args: "oqo"},
	14:    {name: "CB_NOTIFY_DEVICEID", args: "*{Bo}"},
	15:    {name: "CB_OFFLOAD", args: "oS@{0 W|_ q}"},
	10044: {name: "CB_ILLEGAL"},
}
