a=ice-ufrag:EsAw
a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
m=audio 9 RTP/AVP 0
a=mid:0
a=candidate:1387637174 1 udp 2122260223 198.51.100.4 61764 typ host generation 0 ufrag EsAw network-id 1
a=candidate:3471623853 1 tcp 1518280447 198.51.100.4 9 typ host tcptype active
a=end-of-candidates
