"""Photo patches: views of keypoints in photographs that wheels contain."""
