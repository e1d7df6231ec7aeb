a=ice-ufrag:EsAw
a=candidate:2 1 UDP 5 [2001:db8::4] 5001 typ srflx raddr :: rport 9
